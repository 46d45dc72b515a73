#include "kernels.h"

namespace gradagrad {

GRADAGRAD_KERNELS(f64_f64, double, double)

const Kernels* kernels_f64_f64() { return &f64_f64::kernels; }

}  // namespace gradagrad
