#include "by_hand.h"
#include "kernels.h"

namespace gradagrad {

GRADAGRAD_KERNELS(bf16_bf16, bf16, bf16)

#if defined(GRADAGRAD_BY_HAND)
static void fast_elements(const Work& work, int64_t begin, int64_t end) {
  if (work.settings.options()) {
    bf16_bf16::elements(work, begin, end);
  } else {
    elements_bf16_bf16_avx2(work, begin, end);
  }
}
#endif

const Kernels* kernels_bf16_bf16() {
#if defined(GRADAGRAD_BY_HAND)
  static const Kernels fast = [] {
    Kernels kernels = bf16_bf16::kernels;
    if (__builtin_cpu_supports("avx2")) kernels.elements = fast_elements;
    return kernels;
  }();
  return &fast;
#else
  return &bf16_bf16::kernels;
#endif
}

}  // namespace gradagrad
