#include "kernels.h"

namespace gradagrad {

GRADAGRAD_KERNELS(f32_bf16, float, bf16)

const Kernels* kernels_f32_bf16() { return &f32_bf16::kernels; }

}  // namespace gradagrad
