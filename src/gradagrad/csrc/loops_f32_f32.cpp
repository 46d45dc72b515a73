#include "kernels.h"

namespace gradagrad {

GRADAGRAD_KERNELS(f32_f32, float, float)

const Kernels* kernels_f32_f32() { return &f32_f32::kernels; }

}  // namespace gradagrad
