#include "kernels.h"

namespace gradagrad {

GRADAGRAD_KERNELS(bf16_bf16, bf16, bf16)

const Kernels* kernels_bf16_bf16() { return &bf16_bf16::kernels; }

}  // namespace gradagrad
