#include "kernels.h"

namespace gradagrad {

GRADAGRAD_RARE_KERNELS(f64_bf16, double, bf16)

const Kernels* kernels_f64_bf16() { return &f64_bf16::kernels; }

}  // namespace gradagrad
