// A step of one parameter whose gradient is sparse: only the touched rows are visited.
#pragma once

#include <array>

#include "step.h"

namespace gradagrad {

// The positions of each row's values, grouped by row in ascending order.
class SortedRows {
 public:
  SortedRows(const int64_t* rows, int64_t count, int64_t bound);

  int64_t unique() const { return static_cast<int64_t>(starts_.size()) - 1; }
  const int64_t* positions(int64_t i) const { return positions_.data() + starts_[i]; }
  int64_t occurrences(int64_t i) const { return starts_[i + 1] - starts_[i]; }

 private:
  std::vector<int64_t> positions_, starts_;
};

class SparseStep : public Prepared {
 public:
  // `state`: the counter, the element fields, the block fields. `clock_block`: the block field that rows keep time by, or -1 for
  // the counter.
  SparseStep(Settings settings, torch::stable::Tensor param, torch::stable::Tensor rows, torch::stable::Tensor values,
             StableIValue state, std::optional<torch::stable::Tensor> clocks, int64_t stream, int64_t clock_block);

  Verdict prepare() override;
  void run() override;
  void move(const double* sums, double* statistics) override;

 private:
  void gather();
  template <class F>
  void parallel(const F& f) const;
  double now() const;

  const torch::stable::Tensor param_, rows_tensor_, values_tensor_;
  const Handles state_;
  const std::optional<torch::stable::Tensor> clocks_tensor_;
  const int64_t stream_, clock_block_;
  Job job_{};
  int64_t* counter_ = nullptr;
  const int64_t* rows_ = nullptr;
  double* clocks_ = nullptr;
  int64_t count_ = 0, table_ = 0;
  std::vector<Range> touched_;
  std::vector<char> sums_of_rows_;
  bool row_blocks_ = false;
};

}  // namespace gradagrad
