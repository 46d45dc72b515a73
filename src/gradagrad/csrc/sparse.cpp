// Sparse gradients: one pass over the touched rows, which gathers, steps and scatters them. Cost follows the rows.
#include <torch/csrc/stable/library.h>
#include <torch/csrc/stable/ops.h>

#include <algorithm>
#include <optional>

#include "sorted.h"

namespace gradagrad {

namespace {

using torch::stable::Tensor;
using torch::stable::detail::from;
using torch::stable::detail::to;

struct SparseCall {
  Tensor param, rows, values, momentum, growth, accumulator, step;
  std::optional<Tensor> last_rows, rows_out;
  Granularity granularity;
  std::vector<double> numbers;
  int64_t flags, seed, stream;
  std::optional<Tensor> grad_scale, found_inf;
  bool only_check;

  explicit SparseCall(StableIValue* stack)
      : param(to<Tensor>(stack[0])),
        rows(to<Tensor>(stack[1])),
        values(to<Tensor>(stack[2])),
        momentum(to<Tensor>(stack[3])),
        growth(to<Tensor>(stack[4])),
        accumulator(to<Tensor>(stack[5])),
        step(to<Tensor>(stack[6])),
        last_rows(to<std::optional<Tensor>>(stack[7])),
        rows_out(to<std::optional<Tensor>>(stack[8])),
        granularity(static_cast<Granularity>(to<int64_t>(stack[9]))),
        numbers(to<std::vector<double>>(stack[10])),
        flags(to<int64_t>(stack[11])),
        seed(to<int64_t>(stack[12])),
        stream(to<int64_t>(stack[13])),
        grad_scale(to<std::optional<Tensor>>(stack[14])),
        found_inf(to<std::optional<Tensor>>(stack[15])),
        only_check(to<bool>(stack[16])) {}
};

class SparseStep {
 public:
  explicit SparseStep(const SparseCall& call) : call_(call) {}

  Verdict prepare() {
    const View x = view(call_.param.get()), g = view(call_.values.get()), m = view(call_.momentum.get());
    const View growth = view(call_.growth.get()), alpha = view(call_.accumulator.get());
    step_ = view(call_.step.get());
    for (const View* a : {&x, &g, &m, &growth, &alpha}) {
      if (!a->on_cpu) return {Refusal::device, 0};
      if (!a->strided) return {Refusal::layout, 0};
    }
    if (!supported(x.dtype)) return {Refusal::parameter_dtype, 0};
    if (g.dtype != x.dtype) return {Refusal::gradient_dtype, 0};
    work_.kernels = kernels_for(x.dtype, m.dtype);
    const bool element = call_.granularity == Granularity::element;
    const int32_t dtype = element ? m.dtype : computing_dtype(x.dtype);
    if (!work_.kernels || growth.dtype != dtype || alpha.dtype != dtype) return {Refusal::state_dtype, 0};
    if (x.dim < 1 || g.dim != x.dim || !std::equal(x.sizes + 1, x.sizes + x.dim, g.sizes + 1)) {
      return {Refusal::gradient_shape, 0};
    }
    const int64_t table = x.sizes[0];
    if (!same_shape(x, m)) return {Refusal::state_shape, 0};
    if (element ? !same_shape(x, growth) || !same_shape(x, alpha) : growth.size != table || alpha.size != table) {
      return {Refusal::state_shape, 0};
    }
    for (const View* a : {&x, &g, &m, &growth, &alpha}) {
      if (!contiguous(*a)) return {Refusal::strides, 0};
    }
    if (!is_counter(step_)) return {Refusal::step_counter, 0};
    if (call_.grad_scale && !scalar(call_.grad_scale->get(), scale_)) return {Refusal::scaler, 0};
    if (call_.found_inf && !scalar(call_.found_inf->get(), found_inf_)) return {Refusal::scaler, 0};
    rows_ = view(call_.rows.get());
    if (!is_index(rows_, g.sizes[0]) || !within(rows_, table)) return {Refusal::indices, 0};
    if (call_.last_rows) {
      last_ = view(call_.last_rows->get());
      if (!is_index(last_, last_.size) || !within(last_, table)) return {Refusal::indices, 0};
    }
    if (call_.rows_out) {
      out_ = view(call_.rows_out->get());
      if (!is_index(out_, rows_.size)) return {Refusal::indices, 0};
    }
    Overlaps overlaps;
    for (const View* a : {&x, &m, &growth, &alpha}) overlaps.written(*a);
    overlaps.written(step_);
    if (call_.rows_out) overlaps.written(out_);
    overlaps.read(g);
    overlaps.read(rows_);
    if (call_.last_rows) overlaps.read(last_);
    if (overlaps.found()) return {Refusal::overlap, 0};

    work_.x = x.data;
    work_.m = m.data;
    work_.growth = growth.data;
    work_.alpha = alpha.data;
    work_.g = g.data;
    work_.size = x.size;
    work_.row = row_length(x);
    work_.slot = element ? 1 : work_.row;
    work_.elementwise = element || (work_.row == 1 && dtype == m.dtype);
    work_.settings = settings_from(call_.numbers, call_.flags);
    clock(work_, *static_cast<const float*>(step_.data), call_.seed, call_.stream);
    bound_ = table;
    return {};
  }

  bool skip() const { return found_inf_ != 0.0; }

  // Returns how many different rows there are.
  int64_t run() {
    *static_cast<float*>(step_.data) += 1.0f;
    const auto* rows = static_cast<const int64_t*>(rows_.data);
    const Sorted sorted(rows, rows_.size, bound_);
    const int64_t unique = sorted.unique(), bytes = work_.row * work_.kernels->parameter_size;
    std::vector<Touched> touched(unique);
    int64_t summed = 0;
    for (int64_t i = 0; i < unique; ++i) {
      const int64_t position = sorted.positions(i)[0];
      touched[i] = {rows[position], static_cast<const char*>(work_.g) + position * bytes};
      summed += call_.grad_scale.has_value() || sorted.occurrences(i) > 1;
    }
    // Rows that need a sum (or a division by the scale) get memory of their own; the others are read where they are.
    std::vector<char> scratch(static_cast<size_t>(summed * bytes));
    char* next = scratch.data();
    for (int64_t i = 0; summed && i < unique; ++i) {
      if (!call_.grad_scale && sorted.occurrences(i) == 1) continue;
      touched[i].values = next;
      next += bytes;
    }
    const int64_t grain = std::max<int64_t>(1, 8192 / std::max<int64_t>(1, work_.row));
    torch::stable::parallel_for(0, unique, grain, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; summed && i < end; ++i) {
        if (!call_.grad_scale && sorted.occurrences(i) == 1) continue;
        work_.kernels->gather(
            work_, sorted.positions(i), sorted.occurrences(i), work_.g, const_cast<void*>(touched[i].values), scale_);
      }
      work_.kernels->rows(work_, touched.data(), begin, end);
    });
    if (call_.last_rows) forget(touched);
    if (call_.rows_out) {
      auto* out = static_cast<int64_t*>(out_.data);
      for (int64_t i = 0; i < unique; ++i) out[i] = touched[i].row;
    }
    return unique;
  }

 private:
  // A row touched at the last step but not now forgets its gradient, as it would with a dense gradient of zero.
  void forget(const std::vector<Touched>& touched) {
    const auto* last = static_cast<const int64_t*>(last_.data);
    const int64_t bytes = work_.row * work_.kernels->momentum_size;
    for (int64_t i = 0; i < last_.size; ++i) {
      const auto at = std::lower_bound(
          touched.begin(), touched.end(), last[i], [](const Touched& a, int64_t row) { return a.row < row; });
      if (at != touched.end() && at->row == last[i]) continue;
      std::memset(static_cast<char*>(work_.m) + last[i] * bytes, 0, static_cast<size_t>(bytes));
    }
  }

  const SparseCall& call_;
  Work work_{};
  View rows_{}, last_{}, out_{}, step_{};
  double scale_ = 1.0, found_inf_ = 0.0;
  int64_t bound_ = 0;
};

}  // namespace

// Returns −(number of different rows), or why it refused.
void sparse_step(StableIValue* stack, uint64_t, uint64_t) {
  int64_t result = 0;
  {
    const SparseCall call(stack);
    SparseStep step(call);
    const Verdict verdict = step.prepare();
    result = verdict.code();
    if (!verdict && !call.only_check && !step.skip()) result = -step.run();
  }
  stack[0] = from(result);
}

}  // namespace gradagrad
