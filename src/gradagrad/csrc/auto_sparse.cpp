// Sparse gradients of AutoGradaGrad: rows are sorted and repeated ones added up once, then measured, then moved.
#include <torch/csrc/stable/library.h>
#include <torch/csrc/stable/ops.h>

#include <algorithm>
#include <optional>

#include "auto_step.h"
#include "sorted.h"

namespace gradagrad {

namespace shared {

const Kernels* kernels_f32_f32();
const Kernels* kernels_f64_f64();
const Kernels* kernels_bf16_f32();
const Kernels* kernels_f32_bf16();
const Kernels* kernels_bf16_bf16();
const Kernels* kernels_f16_f32();
const Kernels* kernels_f16_bf16();
const Kernels* kernels_f64_bf16();

const Kernels* kernels_for(int32_t parameter, int32_t state) {
  static const int32_t f32 = aoti_torch_dtype_float32(), f64 = aoti_torch_dtype_float64();
  static const int32_t b16 = aoti_torch_dtype_bfloat16(), f16 = aoti_torch_dtype_float16();
  if (parameter == f32 && state == f32) return kernels_f32_f32();
  if (parameter == f64 && state == f64) return kernels_f64_f64();
  if (parameter == b16 && state == f32) return kernels_bf16_f32();
  if (parameter == f32 && state == b16) return kernels_f32_bf16();
  if (parameter == b16 && state == b16) return kernels_bf16_bf16();
  if (parameter == f16 && state == f32) return kernels_f16_f32();
  if (parameter == f16 && state == b16) return kernels_f16_bf16();
  if (parameter == f64 && state == b16) return kernels_f64_bf16();
  return nullptr;
}

namespace {

using torch::stable::Tensor;
using torch::stable::detail::to;

class SparseStep : public Pending {
 public:
  explicit SparseStep(StableIValue* stack)
      : param_(to<Tensor>(stack[0])),
        row_numbers_(to<Tensor>(stack[1])),
        values_(to<Tensor>(stack[2])),
        momentum_(to<Tensor>(stack[3])),
        accumulator_(to<Tensor>(stack[4])),
        average_(to<std::optional<Tensor>>(stack[5])),
        clocks_(to<std::optional<Tensor>>(stack[6])),
        step_(to<Tensor>(stack[7])),
        numbers_(numbers_from(to<std::vector<double>>(stack[8]), to<int64_t>(stack[9]))),
        seed_(to<int64_t>(stack[10])),
        stream_(to<int64_t>(stack[11])) {}

  Verdict prepare() {
    const View x = view(param_.get()), g = view(values_.get()), h = view(momentum_.get());
    const View B = view(accumulator_.get()), mean = average_ ? view(average_->get()) : h, step = view(step_.get());
    for (const View* a : {&x, &g, &h, &B, &mean}) {
      if (!a->on_cpu) return {Refusal::device, 0};
      if (!a->strided) return {Refusal::layout, 0};
    }
    if (!supported(x.dtype)) return {Refusal::parameter_dtype, 0};
    if (g.dtype != x.dtype) return {Refusal::gradient_dtype, 0};
    work_.kernels = kernels_for(x.dtype, h.dtype);
    if (!work_.kernels || B.dtype != h.dtype || mean.dtype != h.dtype) return {Refusal::state_dtype, 0};
    if (x.dim < 1 || g.dim != x.dim || !std::equal(x.sizes + 1, x.sizes + x.dim, g.sizes + 1)) {
      return {Refusal::gradient_shape, 0};
    }
    for (const View* a : {&h, &B, &mean}) {
      if (!same_shape(x, *a)) return {Refusal::state_shape, 0};
    }
    for (const View* a : {&x, &g, &h, &B, &mean}) {
      if (!contiguous(*a)) return {Refusal::strides, 0};
    }
    if (!is_counter(step)) return {Refusal::step_counter, 0};
    const View rows = view(row_numbers_.get());
    if (!is_index(rows, g.sizes[0]) || !within(rows, x.sizes[0])) return {Refusal::indices, 0};
    if (average_.has_value() != clocks_.has_value()) return {Refusal::lengths, 0};
    View clocks = clocks_ ? view(clocks_->get()) : step;
    if (clocks_ && !(clocks.on_cpu && clocks.strided && clocks.dtype == aoti_torch_dtype_int32() && clocks.dim == 1 &&
                     clocks.size == x.sizes[0] && contiguous(clocks))) {
      return {Refusal::state_shape, 0};
    }
    Overlaps overlaps;
    for (const View* a : {&x, &h, &B, &step}) overlaps.written(*a);
    if (average_) {
      overlaps.written(mean);
      clocks.dtype = aoti_torch_dtype_float32();  // as wide, and of the widths that `Overlaps` knows
      overlaps.written(clocks);
    }
    overlaps.read(g);
    overlaps.read(rows);
    if (overlaps.found()) return {Refusal::overlap, 0};

    work_.x = x.data;
    work_.g = g.data;
    work_.h = h.data;
    work_.B = B.data;
    work_.mean = average_ ? mean.data : nullptr;
    work_.clocks = clocks_ ? static_cast<int32_t*>(clocks.data) : nullptr;
    work_.size = x.size;
    work_.row = row_length(x);
    counter_ = static_cast<float*>(step.data);
    gather_ = gradagrad::kernels_for(x.dtype, h.dtype)->gather;
    collect(static_cast<const int64_t*>(rows.data), rows.size, x.sizes[0]);
    return {};
  }

  Sums measure() const {
    const int64_t count = static_cast<int64_t>(touched_.size()), blocks = (count + unit() - 1) / unit();
    std::vector<Sums> partial(static_cast<size_t>(blocks));
    torch::stable::parallel_for(0, blocks, 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const int64_t from = i * unit(), until = std::min(from + unit(), count);
        partial[i] = work_.kernels->measure_rows(work_, numbers_, touched_.data(), from, until);
      }
    });
    Sums sums;
    for (const Sums& one : partial) sums.add(one);
    return sums;
  }

  void move(const Numbers& numbers) override {
    count(work_, counter_, seed_, stream_);
    torch::stable::parallel_for(0, static_cast<int64_t>(touched_.size()), unit(), [&](int64_t begin, int64_t end) {
      work_.kernels->move_rows(work_, numbers, touched_.data(), begin, end);
    });
  }

 private:
  // Rows whose sums are added up as one, and the fewest that are worth a thread.
  int64_t unit() const { return std::max<int64_t>(1, 8192 / std::max<int64_t>(1, work_.row)); }

  // Finds the touched rows. One that occurs several times gets memory of its own for its sum; the others are read where
  // they are.
  void collect(const int64_t* rows, int64_t count, int64_t bound) {
    const Sorted sorted(rows, count, bound);
    const int64_t unique = sorted.unique(), bytes = work_.row * work_.kernels->parameter_size;
    touched_.resize(static_cast<size_t>(unique));
    int64_t summed = 0;
    for (int64_t i = 0; i < unique; ++i) summed += sorted.occurrences(i) > 1;
    scratch_.resize(static_cast<size_t>(summed * bytes));
    char* next = scratch_.data();
    gradagrad::Work work{};
    work.row = work_.row;
    for (int64_t i = 0; i < unique; ++i) {
      const int64_t position = sorted.positions(i)[0];
      touched_[i] = {rows[position], static_cast<const char*>(work_.g) + position * bytes};
      if (sorted.occurrences(i) == 1) continue;
      gather_(work, sorted.positions(i), sorted.occurrences(i), work_.g, next, 1.0);
      touched_[i].values = next;
      next += bytes;
    }
  }

  const Tensor param_, row_numbers_, values_, momentum_, accumulator_;
  const std::optional<Tensor> average_, clocks_;
  const Tensor step_;
  const Numbers numbers_;
  const int64_t seed_, stream_;
  Work work_{};
  float* counter_ = nullptr;
  decltype(gradagrad::Kernels::gather) gather_ = nullptr;
  std::vector<Touched> touched_;
  std::vector<char> scratch_;
};

}  // namespace

}  // namespace shared

// As `auto_measure`, for one parameter.
void auto_sparse_measure(StableIValue* stack, uint64_t, uint64_t) {
  using torch::stable::detail::to;
  const auto sums = to<torch::stable::Tensor>(stack[12]);
  auto step = std::make_unique<shared::SparseStep>(stack);
  int64_t result = step->prepare().code();
  if (result == 0) {
    shared::sums_at(sums) = step->measure();
    result = -shared::hold(std::move(step));
  }
  stack[0] = torch::stable::detail::from(result);
}

}  // namespace gradagrad
