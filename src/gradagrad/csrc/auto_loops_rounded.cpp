#include "auto_kernels.h"

namespace gradagrad::shared {

GRADAGRAD_AUTO_KERNELS(f32_bf16, float, bf16)
GRADAGRAD_AUTO_KERNELS(bf16_bf16, bf16, bf16)

const Kernels* kernels_f32_bf16() { return &f32_bf16::kernels; }
const Kernels* kernels_bf16_bf16() { return &bf16_bf16::kernels; }

}  // namespace gradagrad::shared
