// Pairs of formats that hardly anybody has, so that one form for all machines is enough.
#undef GRADAGRAD_NO_CLONES
#define GRADAGRAD_NO_CLONES
#include "auto_kernels.h"

namespace gradagrad::shared {

GRADAGRAD_AUTO_KERNELS(f16_f32, f16, float)
GRADAGRAD_AUTO_KERNELS(f16_bf16, f16, bf16)
GRADAGRAD_AUTO_KERNELS(f64_bf16, double, bf16)

const Kernels* kernels_f16_f32() { return &f16_f32::kernels; }
const Kernels* kernels_f16_bf16() { return &f16_bf16::kernels; }
const Kernels* kernels_f64_bf16() { return &f64_bf16::kernels; }

}  // namespace gradagrad::shared
