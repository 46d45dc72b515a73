#include "auto_kernels.h"

namespace gradagrad::shared {

GRADAGRAD_AUTO_KERNELS(f32_f32, float, float)
GRADAGRAD_AUTO_KERNELS(f64_f64, double, double)
GRADAGRAD_AUTO_KERNELS(bf16_f32, bf16, float)

const Kernels* kernels_f32_f32() { return &f32_f32::kernels; }
const Kernels* kernels_f64_f64() { return &f64_f64::kernels; }
const Kernels* kernels_bf16_f32() { return &bf16_f32::kernels; }

}  // namespace gradagrad::shared
