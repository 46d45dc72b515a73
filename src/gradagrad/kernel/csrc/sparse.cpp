#include "sparse.h"

#include <torch/csrc/stable/ops.h>

#include <algorithm>
#include <stdexcept>

namespace gradagrad {

SortedRows::SortedRows(const int64_t* rows, int64_t count, int64_t bound) : positions_(count) {
  bool ascending = true;
  for (int64_t i = 1; i < count && ascending; ++i) ascending = rows[i - 1] < rows[i];
  for (int64_t i = 0; i < count; ++i) positions_[i] = i;
  // A radix sort, eleven bits at a time.
  std::vector<int64_t> other(ascending ? 0 : count);
  for (int shift = 0; !ascending && (bound - 1) >> shift > 0; shift += 11) {
    std::array<int64_t, 2049> begin{};
    for (int64_t i = 0; i < count; ++i) ++begin[((rows[i] >> shift) & 2047) + 1];
    for (size_t d = 1; d < begin.size(); ++d) begin[d] += begin[d - 1];
    for (const int64_t position : positions_) other[begin[(rows[position] >> shift) & 2047]++] = position;
    positions_.swap(other);
  }
  starts_.reserve(count + 1);
  for (int64_t i = 0; i < count; ++i) {
    if (i == 0 || rows[positions_[i]] != rows[positions_[i - 1]]) starts_.push_back(i);
  }
  starts_.push_back(count);
}

SparseStep::SparseStep(
    Settings settings, torch::stable::Tensor param, torch::stable::Tensor rows, torch::stable::Tensor values,
    StableIValue state, std::optional<torch::stable::Tensor> clocks, int64_t stream, int64_t clock_block)
    : Prepared(std::move(settings)), param_(std::move(param)), rows_tensor_(std::move(rows)),
      values_tensor_(std::move(values)), state_(state), clocks_tensor_(std::move(clocks)), stream_(stream),
      clock_block_(clock_block) {}

Verdict SparseStep::prepare() {
  const Rule& rule = *settings_.rule;
  if (state_.size() != 1 + rule.elements + rule.blocks) return {Refusal::lengths, 0};
  // Rules that learn share blocks and are stepped in phases; others have blocks of elements or rows and are run.
  if (static_cast<bool>(rule.learn) != settings_.single()) return {Refusal::lengths, 0};
  if (clock_block_ < -1 || clock_block_ >= (settings_.single() ? rule.blocks : 0)) return {Refusal::lengths, 0};
  const View x = view(param_.get()), values = view(values_tensor_.get()), rows = view(rows_tensor_.get());
  const View counter = view(state_[0]);
  Checklist checklist(4 + rule.elements + rule.blocks);
  if (const Verdict verdict = put_parameter(job_, x, checklist, 0)) return verdict;
  if (x.dim < 1 || values.dim != x.dim || !std::equal(x.sizes + 1, x.sizes + x.dim, values.sizes + 1)) {
    return {Refusal::gradient_shape, 0};
  }
  if (!contiguous(x)) return {Refusal::rows, 0};
  table_ = x.sizes[0];
  count_ = rows.size;
  row_blocks_ = settings_.scope == Scope::row && job_.width > 1;
  const int64_t entries = x.size == 0 ? 0 : count_ * job_.width;
  const Role gradient{one_of(x.kind), Refusal::gradient_dtype, Refusal::gradient_shape, nullptr, entries, false};
  put(job_, stream::g, values, gradient, checklist, 0);
  checklist.add(rows, {one_of(Kind::int64), Refusal::indices, Refusal::indices, nullptr, count_, false}, 0);
  checklist.add(counter, counting, 0);
  for (int k = 0; k < rule.elements + rule.blocks; ++k) {
    const bool block = k >= rule.elements;
    const int s = block ? stream::blocks + k - rule.elements : stream::elements + k;
    put(job_, s, view(state_[1 + k]), settings_.role_of(x, block), checklist, 0);
  }
  if (clocks_tensor_) {
    const View clocks = view(clocks_tensor_->get());
    checklist.add(clocks, {one_of(Kind::f64), Refusal::row_clocks, Refusal::row_clocks, nullptr, table_, true}, 0);
    clocks_ = static_cast<double*>(clocks.data);
  }
  if (const Verdict verdict = checklist.overlaps()) return verdict;
  rows_ = static_cast<const int64_t*>(rows.data);
  const bool inside = std::all_of(rows_, rows_ + count_, [&](int64_t row) { return row >= 0 && row < table_; });
  if (!inside) return {Refusal::indices, 0};
  counter_ = static_cast<int64_t*>(counter.data);
  settings_.set(job_, *counter_, stream_);
  return {};
}

// Rows in ascending order; those that occur several times are added up, in the order of occurrence.
void SparseStep::gather() {
  if (!touched_.empty() || count_ == 0 || job_.size == 0) return;
  const SortedRows sorted(rows_, count_, table_);
  const int64_t unique = sorted.unique(), width = job_.width, bytes = width * size_of(job_.formats[stream::g]);
  int64_t repeated = 0;
  for (int64_t i = 0; i < unique; ++i) repeated += sorted.occurrences(i) > 1;
  touched_.reserve(unique);
  sums_of_rows_.resize(static_cast<size_t>(repeated * bytes));
  char* next = sums_of_rows_.data();
  for (int64_t i = 0; i < unique; ++i) {
    const int64_t* positions = sorted.positions(i);
    const int64_t row = rows_[positions[0]];
    const char* values = job_.data[stream::g] + positions[0] * bytes;
    if (sorted.occurrences(i) > 1) {
      const auto add = job_.in_double ? Arrays<double>::add_up_rows : Arrays<float>::add_up_rows;
      add(job_.formats[stream::g], job_.data[stream::g], positions, sorted.occurrences(i), width, next);
      values = next;
      next += bytes;
    }
    touched_.push_back({row * width, values});
  }
}

// Calls f(pass, rows, count, group) for groups of rows of a fixed size, so that sums do not depend on threads.
template <class F>
void SparseStep::parallel(const F& f) const {
  const int64_t group = std::max<int64_t>(1, 4096 / job_.width), count = static_cast<int64_t>(touched_.size());
  torch::stable::parallel_for(0, (count + group - 1) / group, 2, [&](int64_t begin, int64_t end) {
    with_pass(job_, [&](auto& pass) {
      for (int64_t i = begin; i < end; ++i) f(pass, touched_.data() + i * group, std::min(group, count - i * group), i);
    });
  });
}

// The time that all rows are to have caught up with.
double SparseStep::now() const {
  if (clock_block_ < 0) return static_cast<double>(*counter_);
  return *reinterpret_cast<const double*>(job_.data[stream::blocks + clock_block_]);
}

void SparseStep::run() {
  if (settings_.single()) throw std::runtime_error("gradagrad: this step is taken in phases.");
  gather();
  const double now = this->now();
  parallel([&](auto& pass, const Range* rows, int64_t count, int64_t) {
    if (clocks_) pass.catch_up(rows, count, clocks_, now, now + 1.0, row_blocks_);
    if (row_blocks_) {
      pass.step_rows(rows, count);
    } else {
      pass.step(rows, count);
    }
  });
  ++*counter_;
}

void SparseStep::move(const double* sums, double* statistics) {
  if (!settings_.single()) throw std::runtime_error("gradagrad: this step has no phases.");
  const int count = rule().statistics;
  gather();
  Block block(job_);
  block.decide(sums);
  const double now = this->now(), after = clock_block_ < 0 ? now + 1.0 : block.field(clock_block_);
  std::vector<double> groups(touched_.size() * count);  // more than enough
  parallel([&](auto& pass, const Range* rows, int64_t size, int64_t group) {
    if (clocks_) pass.catch_up(rows, size, clocks_, now, after, row_blocks_);
    pass.move(rows, size, block.factors(), groups.data() + group * count);
  });
  std::fill(statistics, statistics + count, 0.0);
  for (size_t i = 0; i < groups.size(); ++i) statistics[i % count] += groups[i];
  ++*counter_;
}

}  // namespace gradagrad
