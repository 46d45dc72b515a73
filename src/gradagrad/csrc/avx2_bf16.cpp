#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>

#include "by_hand.h"

// Everything the loops are made of is inlined, so that nothing outside this file is compiled for AVX2.
#if defined(GRADAGRAD_BY_HAND)
#pragma GCC target("avx2")
#include "avx2.h"

namespace gradagrad {

template <class P>
static void run(const Work& work, int64_t begin, int64_t end) {
  if (work.settings.beta != 0.0) {
    Avx2<P, true>::elements(work, begin, end);
  } else {
    Avx2<P, false>::elements(work, begin, end);
  }
}

void elements_f32_bf16_avx2(const Work& work, int64_t begin, int64_t end) { run<float>(work, begin, end); }
void elements_bf16_bf16_avx2(const Work& work, int64_t begin, int64_t end) { run<bf16>(work, begin, end); }

}  // namespace gradagrad
#endif
