#include "kernels.h"

namespace gradagrad {

GRADAGRAD_RARE_KERNELS(f16_bf16, f16, bf16)

const Kernels* kernels_f16_bf16() { return &f16_bf16::kernels; }

}  // namespace gradagrad
