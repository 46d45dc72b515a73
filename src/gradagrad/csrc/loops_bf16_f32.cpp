#include "kernels.h"

namespace gradagrad {

GRADAGRAD_KERNELS(bf16_f32, bf16, float)

const Kernels* kernels_bf16_f32() { return &bf16_f32::kernels; }

}  // namespace gradagrad
