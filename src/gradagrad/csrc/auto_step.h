// A step of AutoGradaGrad in two calls: the first checks and measures, the second moves what the first has prepared. In
// between all param groups (and all ranks) decide together, and hundreds of small tensors are handed over only once.
#pragma once

#include <memory>

#include "auto_loops.h"
#include "step.h"

namespace gradagrad::shared {

// What has been measured and waits to be moved. It owns the tensors until then.
class Pending {
 public:
  virtual ~Pending() = default;
  virtual void move(const Numbers& numbers) = 0;
};

int64_t hold(std::unique_ptr<Pending> step);

// The loops for a parameter of one dtype and state of another; null if there are none.
const Kernels* kernels_for(int32_t parameter, int32_t state);
Numbers numbers_from(const std::vector<double>& numbers, int64_t flags);
// Where sums are written; throws unless they fit there.
Sums& sums_at(const torch::stable::Tensor& tensor);
// Counts the step and draws what its random bits depend on.
void count(Work& work, float* counter, int64_t seed, int64_t stream);

}  // namespace gradagrad::shared
