// The ops: one call and one parallel region per step over the whole list (two where a step size is shared by more than a
// block, because all must be measured before any may move).
#include <torch/csrc/stable/ops.h>

#include <algorithm>
#include <array>
#include <optional>

#include "tensors.h"

namespace gradagrad {

const Kernels* kernels_f32_f32();
const Kernels* kernels_f64_f64();
const Kernels* kernels_bf16_f32();
const Kernels* kernels_f32_bf16();
const Kernels* kernels_bf16_bf16();

const Kernels* kernels_for(int32_t parameter, int32_t momentum) {
  static const int32_t f32 = aoti_torch_dtype_float32(), f64 = aoti_torch_dtype_float64();
  static const int32_t b16 = aoti_torch_dtype_bfloat16();
  if (parameter == f32 && momentum == f32) return kernels_f32_f32();
  if (parameter == f64 && momentum == f64) return kernels_f64_f64();
  if (parameter == b16 && momentum == f32) return kernels_bf16_f32();
  if (parameter == f32 && momentum == b16) return kernels_f32_bf16();
  if (parameter == b16 && momentum == b16) return kernels_bf16_bf16();
  return nullptr;
}

namespace {

using torch::stable::Tensor;
using torch::stable::detail::to;

// Elements whose sums are added up as one, and the least that is worth a thread.
constexpr int64_t block = 16384;
constexpr int64_t grain = 32768;

struct Call {
  Handles params, grads, momenta, growths, accumulators, steps;
  Granularity granularity;
  std::vector<double> numbers;
  int64_t flags, seed;
  std::vector<int64_t> streams;
  std::optional<Tensor> grad_scale, found_inf;

  static constexpr uint64_t arguments = 13;

  explicit Call(StableIValue* stack)
      : params(stack[0]),
        grads(stack[1]),
        momenta(stack[2]),
        growths(stack[3]),
        accumulators(stack[4]),
        steps(stack[5]),
        granularity(static_cast<Granularity>(to<int64_t>(stack[6]))),
        numbers(to<std::vector<double>>(stack[7])),
        flags(to<int64_t>(stack[8])),
        seed(to<int64_t>(stack[9])),
        streams(to<std::vector<int64_t>>(stack[10])),
        grad_scale(to<std::optional<Tensor>>(stack[11])),
        found_inf(to<std::optional<Tensor>>(stack[12])) {}
};

class Step {
 public:
  explicit Step(const Call& call) : call_(call), settings_(settings_from(call.numbers, call.flags)) {}

  // Checks everything and writes nothing.
  Verdict prepare() {
    const int64_t count = call_.params.size();
    const bool group = call_.granularity == Granularity::group;
    if (call_.grads.size() != count || call_.momenta.size() != count || call_.steps.size() != count ||
        static_cast<int64_t>(call_.streams.size()) != count || call_.growths.size() != call_.accumulators.size() ||
        (group ? call_.growths.size() < std::min<int64_t>(count, 1) : call_.growths.size() != count)) {
      return {Refusal::lengths, 0};
    }
    if (call_.grad_scale && !scalar(call_.grad_scale->get(), scale_)) return {Refusal::scaler, 0};
    if (call_.found_inf && !scalar(call_.found_inf->get(), found_inf_)) return {Refusal::scaler, 0};
    works_.reserve(count);
    for (int64_t i = 0; i < count; ++i) {
      if (const Verdict verdict = add(i)) return verdict;
    }
    for (int64_t i = 0; group && i < call_.growths.size(); ++i) {
      if (const Verdict verdict = add_copy(i)) return verdict;
    }
    if (overlaps_.found()) return {Refusal::overlap, 0};
    return {};
  }

  bool skip() const { return found_inf_ == 1.0; }

  void run() {
    count_steps();
    const bool early = !settings_.beta && !settings_.project && !settings_.lazy;
    if (shared_) {
      measure(early, true);
      adapt();
    }
    move(early, !shared_);
  }

  // The two halves of `run` for slots that span more than this call sees.
  void measure_only() { measure(false, true); }

  void apply(const double* sums, int64_t rows) {
    count_steps();
    if (call_.granularity == Granularity::group) {
      total_ = {sums[0], sums[1]};
    } else {
      for (int64_t i = 0; i < rows; ++i) given_.push_back({sums[2 * i], sums[2 * i + 1]});
    }
    adapt();
    move(false, false);
  }

  int64_t sum_rows() const { return call_.granularity == Granularity::group ? 1 : static_cast<int64_t>(works_.size()); }

  void write_sums(double* to) const {
    if (call_.granularity == Granularity::group) {
      to[0] = total_.gg;
      to[1] = total_.gm;
      return;
    }
    for (size_t i = 0; i < works_.size(); ++i) {
      const Sums sum = sum_of(works_[i]);
      to[2 * i] = sum.gg;
      to[2 * i + 1] = sum.gm;
    }
  }

  // Slots of single tensors are shared with other processes, so even short ones take two passes.
  void share() { split_ = true; }

 private:
  Verdict add(int64_t i) {
    const View x = view(call_.params[i]), g = view(call_.grads[i]), m = view(call_.momenta[i]);
    if (!x.on_cpu || !g.on_cpu || !m.on_cpu) return {Refusal::device, i};
    if (!x.strided || !g.strided || !m.strided) return {Refusal::layout, i};
    const bool known = x.dtype == aoti_torch_dtype_float32() || x.dtype == aoti_torch_dtype_float64() ||
                       x.dtype == aoti_torch_dtype_bfloat16();
    if (!known) return {Refusal::parameter_dtype, i};
    if (g.dtype != x.dtype) return {Refusal::gradient_dtype, i};
    const Kernels* kernels = kernels_for(x.dtype, m.dtype);
    if (!kernels) return {Refusal::state_dtype, i};
    if (!same_shape(x, g)) return {Refusal::gradient_shape, i};
    if (!same_shape(x, m)) return {Refusal::state_shape, i};
    if (!same_strides(x, g) || !same_strides(x, m)) return {Refusal::strides, i};
    if (!dense(x)) return {Refusal::density, i};

    const View step = view(call_.steps[i]);
    if (!step.on_cpu || step.size != 1 || step.dtype != aoti_torch_dtype_float32()) return {Refusal::step_counter, i};

    Work work{};
    work.x = x.data;
    work.g = g.data;
    work.m = m.data;
    work.size = x.size;
    work.row = row_length(x);
    work.kernels = kernels;
    work.settings = settings_;
    if (call_.granularity != Granularity::group) {
      if (const Verdict verdict = add_slots(i, x, m, work)) return verdict;
    } else {
      work.slot = x.size;
    }
    const bool by_row = call_.granularity == Granularity::row || (settings_.lazy && work.slot > 1);
    if (by_row && !rows_outermost(x)) return {Refusal::rows, i};

    counters_.push_back(static_cast<float*>(step.data));
    const double now = static_cast<double>(*counters_.back()) + 1.0;
    work.settings.lr = settings_.lr / (1.0 + (now - 1.0) * settings_.lr_decay);
    work.key = random_key(
        static_cast<uint32_t>(call_.seed), static_cast<uint32_t>(static_cast<int64_t>(now)),
        static_cast<uint32_t>(call_.streams[i]));
    overlaps_.written(x);
    overlaps_.written(m);
    overlaps_.written(step);
    if (call_.grad_scale) {
      overlaps_.written(g);
    } else {
      overlaps_.read(g);
    }
    place(work);
    return {};
  }

  Verdict add_slots(int64_t i, const View& x, const View& m, Work& work) {
    const View growth = view(call_.growths[i]), alpha = view(call_.accumulators[i]);
    if (!growth.on_cpu || !alpha.on_cpu) return {Refusal::device, i};
    if (!growth.strided || !alpha.strided) return {Refusal::layout, i};
    const bool element = call_.granularity == Granularity::element;
    const int32_t dtype = element ? m.dtype : computing_dtype(x.dtype);
    if (growth.dtype != dtype || alpha.dtype != dtype) return {Refusal::state_dtype, i};
    if (element) {
      if (!same_shape(x, growth) || !same_shape(x, alpha)) return {Refusal::state_shape, i};
      if (!same_strides(x, growth) || !same_strides(x, alpha)) return {Refusal::strides, i};
      work.slot = 1;
    } else {
      const bool row = call_.granularity == Granularity::row;
      const int64_t slots = row && x.dim ? x.sizes[0] : 1;
      if (growth.size != slots || alpha.size != slots) return {Refusal::state_shape, i};
      if (!dense(growth) || !dense(alpha)) return {Refusal::strides, i};
      work.slot = row ? work.row : x.size;
    }
    work.growth = growth.data;
    work.alpha = alpha.data;
    overlaps_.written(growth);
    overlaps_.written(alpha);
    return {};
  }

  // A group's slot is copied under each parameter; the most precise copy speaks for it.
  Verdict add_copy(int64_t i) {
    const View growth = view(call_.growths[i]), alpha = view(call_.accumulators[i]);
    if (!growth.on_cpu || !alpha.on_cpu) return {Refusal::device, i};
    const int32_t f32 = aoti_torch_dtype_float32(), f64 = aoti_torch_dtype_float64();
    if ((growth.dtype != f32 && growth.dtype != f64) || alpha.dtype != growth.dtype) return {Refusal::state_dtype, i};
    if (growth.size != 1 || alpha.size != 1) return {Refusal::state_shape, i};
    const bool precise = growth.dtype == f64;
    if (copies_.empty() || (precise && !copies_[speaker_].precise)) speaker_ = copies_.size();
    copies_.push_back({growth.data, alpha.data, precise});
    overlaps_.written(growth);
    overlaps_.written(alpha);
    return {};
  }

  // Enters the parameter into the list of work; rows too long for one block become works of their own.
  void place(Work work) {
    if (work.size == 0) return;
    const int64_t item = item_of(work);
    const bool long_rows = call_.granularity == Granularity::row && work.slot > block && work.size > work.slot;
    if (!long_rows) {
      place_one(work, item);
      return;
    }
    const int64_t rows = work.size / work.slot, scalar = computing_size(work);
    for (int64_t r = 0; r < rows; ++r) {
      Work row = work;
      row.x = static_cast<char*>(work.x) + r * work.slot * item;
      row.g = static_cast<char*>(work.g) + r * work.slot * item;
      row.m = static_cast<char*>(work.m) + r * work.slot * momentum_size(work);
      row.growth = static_cast<char*>(work.growth) + r * scalar;
      row.alpha = static_cast<char*>(work.alpha) + r * scalar;
      row.size = work.slot;
      row.base = r * work.slot;
      place_one(row, item);
    }
  }

  void place_one(Work& work, int64_t) {
    work.first_block = -1;
    if (two_passes(work)) {
      shared_ = true;
      work.first_block = blocks_;
      blocks_ += (work.size + unit(work) - 1) / unit(work);
    }
    offsets_.push_back(total_size_);
    total_size_ += work.size;
    works_.push_back(work);
  }

  bool two_passes(const Work& work) const {
    if (call_.granularity == Granularity::group) return true;
    return work.slot > 1 && work.slot == work.size && (work.size > block || split_);
  }

  static int64_t item_of(const Work& work) {
    return work.kernels == kernels_f64_f64() ? 8
           : work.kernels == kernels_bf16_f32() || work.kernels == kernels_bf16_bf16() ? 2
                                                                                        : 4;
  }
  static int64_t momentum_size(const Work& work) {
    return work.kernels == kernels_f64_f64() ? 8
           : work.kernels == kernels_f32_bf16() || work.kernels == kernels_bf16_bf16() ? 2
                                                                                        : 4;
  }
  static int64_t computing_size(const Work& work) { return work.kernels == kernels_f64_f64() ? 8 : 4; }

  // The least that is handled at once, in elements: whole slots, and whole rows where `lazy` looks at rows.
  int64_t unit(const Work& work) const {
    if (work.slot == 1) return 64;  // of the parameter's memory, so that threads do not share cache lines
    if (!two_passes_cached(work)) return work.slot;
    return settings_.lazy ? std::max<int64_t>(1, block / work.row) * work.row : block;
  }
  bool two_passes_cached(const Work& work) const { return work.first_block >= 0 || two_passes(work); }

  // Calls f(work, begin, end) in element ranges that together cover the units starting in each thread's share.
  template <class F>
  void parallel(const F& f) const {
    torch::stable::parallel_for(0, total_size_, grain, [&](int64_t begin, int64_t end) {
      size_t i = std::upper_bound(offsets_.begin(), offsets_.end(), begin) - offsets_.begin() - 1;
      for (; i < works_.size() && offsets_[i] < end; ++i) {
        const Work& work = works_[i];
        const int64_t size = unit(work);
        const int64_t from = std::max<int64_t>(0, begin - offsets_[i]), until = end - offsets_[i];
        const int64_t first = (from + size - 1) / size * size;
        const int64_t last = std::min(work.size, (until + size - 1) / size * size);
        if (first < last) f(work, first, last);
      }
    });
  }

  void count_steps() {
    for (float* counter : counters_) *counter += 1.0f;
  }

  void unscale(const Work& work, int64_t begin, int64_t end) const {
    work.kernels->unscale(static_cast<char*>(work.g) + begin * item_of(work), end - begin, scale_);
  }

  void measure(bool early, bool unscaled) {
    partial_.assign(static_cast<size_t>(blocks_), Sums{});
    const bool scaled = unscaled && call_.grad_scale.has_value();
    parallel([&](const Work& work, int64_t begin, int64_t end) {
      if (work.first_block < 0) return;
      const int64_t size = unit(work);
      for (int64_t at = begin; at < end; at += size) {
        const int64_t until = std::min(at + size, end);
        if (scaled) unscale(work, at, until);
        partial_[work.first_block + at / size] = work.kernels->measure(work, at, until, early);
      }
    });
    if (call_.granularity != Granularity::group) return;
    total_ = {};
    for (const Work& work : works_) {
      const Sums sum = sum_of(work);
      total_.gg += sum.gg;
      total_.gm += sum.gm;
    }
  }

  Sums sum_of(const Work& work) const {
    Sums sum;
    const int64_t count = (work.size + unit(work) - 1) / unit(work);
    for (int64_t i = work.first_block; i < work.first_block + count; ++i) {
      sum.gg += partial_[i].gg;
      sum.gm += partial_[i].gm;
    }
    return sum;
  }

  void adapt() {
    if (call_.granularity == Granularity::group) {
      if (copies_.empty()) return;
      const Copy& speaker = copies_[speaker_];
      const Slot<double> before{value(speaker.growth, speaker.precise), value(speaker.alpha, speaker.precise)};
      const Settings& first = works_.empty() ? settings_ : works_.front().settings;
      const Kernels* kernels = speaker.precise ? kernels_f64_f64() : kernels_f32_f32();
      const Slot<double> after = kernels->adapt(first, total_, before);
      for (const Copy& copy : copies_) {
        assign(copy.growth, copy.precise, after.growth);
        assign(copy.alpha, copy.precise, after.alpha);
      }
      for (Work& work : works_) {
        work.before = before;
        work.after = after;
      }
      return;
    }
    for (size_t i = 0; i < works_.size(); ++i) {
      Work& work = works_[i];
      if (work.first_block < 0) continue;
      const bool precise = computing_size(work) == 8;
      work.before = {value(work.growth, precise), value(work.alpha, precise)};
      work.after = work.kernels->adapt(work.settings, given_.empty() ? sum_of(work) : given_[i], work.before);
      assign(work.growth, precise, work.after.growth);
      assign(work.alpha, precise, work.after.alpha);
    }
  }

  static double value(const void* from, bool precise) {
    return precise ? *static_cast<const double*>(from) : static_cast<double>(*static_cast<const float*>(from));
  }
  static void assign(void* to, bool precise, double value) {
    if (precise) {
      *static_cast<double*>(to) = value;
    } else {
      *static_cast<float*>(to) = static_cast<float>(value);
    }
  }

  void move(bool early, bool unscaled) const {
    const bool scaled = call_.grad_scale.has_value();
    parallel([&](const Work& work, int64_t begin, int64_t end) {
      if (work.first_block >= 0) {
        work.kernels->move(work, begin, end, early);
      } else {
        // Piecewise, so that an unscaled gradient is still in the cache when it is used.
        const int64_t size = scaled && work.slot == 1 ? std::min<int64_t>(end - begin, 4096) : end - begin;
        for (int64_t at = begin; at < end; at += size) {
          const int64_t until = std::min(at + size, end);
          if (scaled) unscale(work, at, until);
          if (work.slot == 1) {
            work.kernels->elements(work, at, until);
          } else {
            work.kernels->slots(work, at / work.slot, until / work.slot);
          }
        }
      }
    });
    (void)unscaled;
  }

  struct Copy {
    void* growth;
    void* alpha;
    bool precise;
  };

  const Call& call_;
  Settings settings_;
  double scale_ = 1.0, found_inf_ = 0.0;
  bool shared_ = false, split_ = false;
  std::vector<Work> works_;
  std::vector<int64_t> offsets_;
  std::vector<float*> counters_;
  std::vector<Copy> copies_;
  size_t speaker_ = 0;
  std::vector<Sums> partial_, given_;
  Sums total_;
  int64_t total_size_ = 0, blocks_ = 0;
  Overlaps overlaps_;
};
