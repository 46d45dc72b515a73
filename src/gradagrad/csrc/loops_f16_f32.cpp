#include "kernels.h"

namespace gradagrad {

GRADAGRAD_RARE_KERNELS(f16_f32, f16, float)

const Kernels* kernels_f16_f32() { return &f16_f32::kernels; }

}  // namespace gradagrad
