#include "step.h"

#include <torch/csrc/stable/ops.h>

#include <algorithm>

namespace gradagrad {

namespace {

// Elements whose sums are added up as one, and the fewest that are worth a thread.
constexpr int64_t block = 16384;
constexpr int64_t grain = 32768;

double value(const void* from, bool precise) {
  return precise ? *static_cast<const double*>(from) : static_cast<double>(*static_cast<const float*>(from));
}

void assign(void* to, bool precise, double value) {
  if (precise) {
    *static_cast<double*>(to) = value;
  } else {
    *static_cast<float*>(to) = static_cast<float>(value);
  }
}

}  // namespace

Step::Step(const Call& call, bool split) : call_(call), split_(split), settings_(settings_from(call.numbers, call.flags)) {}

Verdict Step::prepare() {
  const int64_t count = call_.lists->params.size();
  const bool group = call_.granularity == Granularity::group;
  if (call_.grads.size() != count || call_.lists->momenta.size() != count || call_.lists->steps.size() != count ||
      static_cast<int64_t>(call_.streams.size()) != count || call_.lists->growths.size() != call_.lists->accumulators.size() ||
      (group ? call_.lists->growths.size() < std::min<int64_t>(count, 1) : call_.lists->growths.size() != count)) {
    return {Refusal::lengths, 0};
  }
  if (call_.grad_scale && !scalar(call_.grad_scale->get(), scale_)) return {Refusal::scaler, 0};
  if (call_.found_inf && !scalar(call_.found_inf->get(), found_inf_)) return {Refusal::scaler, 0};
  works_.reserve(count);
  offsets_.reserve(count);
  counters_.reserve(count);
  overlaps_.reserve(6 * count);
  for (int64_t i = 0; i < count; ++i) {
    if (const Verdict verdict = add(i)) return verdict;
  }
  for (int64_t i = 0; group && i < call_.lists->growths.size(); ++i) {
    if (const Verdict verdict = add_copy(i)) return verdict;
  }
  if (overlaps_.found()) return {Refusal::overlap, 0};
  return {};
}

Verdict Step::add(int64_t i) {
  const View x = view(call_.lists->params[i]), g = view(call_.grads[i]), m = view(call_.lists->momenta[i]);
  if (!x.on_cpu || !g.on_cpu || !m.on_cpu) return {Refusal::device, i};
  if (!x.strided || !g.strided || !m.strided) return {Refusal::layout, i};
  if (!supported(x.dtype)) return {Refusal::parameter_dtype, i};
  if (g.dtype != x.dtype) return {Refusal::gradient_dtype, i};
  const Kernels* kernels = kernels_for(x.dtype, m.dtype);
  if (!kernels) return {Refusal::state_dtype, i};
  if (!same_shape(x, g)) return {Refusal::gradient_shape, i};
  if (!same_shape(x, m)) return {Refusal::state_shape, i};
  if (!dense(x)) return {Refusal::density, i};
  if (!same_strides(x, g) || !same_strides(x, m)) return {Refusal::strides, i};
  const View step = view(call_.lists->steps[i]);
  if (!is_counter(step)) return {Refusal::step_counter, i};

  Work work{};
  work.x = x.data;
  work.g = g.data;
  work.m = m.data;
  work.size = x.size;
  work.row = row_length(x);
  work.slot = x.size;
  work.kernels = kernels;
  work.settings = settings_;
  if (call_.granularity != Granularity::group) {
    if (const Verdict verdict = add_slots(i, x, m, work)) return verdict;
  }
  const bool by_row = call_.granularity == Granularity::row || (settings_.lazy && !work.elementwise);
  if (by_row && !rows_outermost(x)) return {Refusal::rows, i};

  counters_.push_back(static_cast<float*>(step.data));
  clock(work, *counters_.back(), call_.seed, call_.streams[i]);
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

Verdict Step::add_slots(int64_t i, const View& x, const View& m, Work& work) {
  const View growth = view(call_.lists->growths[i]), alpha = view(call_.lists->accumulators[i]);
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
    if (row) work.slot = work.row;
  }
  work.elementwise = work.slot == 1 && dtype == m.dtype && !split_;
  work.growth = growth.data;
  work.alpha = alpha.data;
  overlaps_.written(growth);
  overlaps_.written(alpha);
  return {};
}

// A group's slot is copied under each of its parameters; the most precise copy speaks for it.
Verdict Step::add_copy(int64_t i) {
  const View growth = view(call_.lists->growths[i]), alpha = view(call_.lists->accumulators[i]);
  if (!growth.on_cpu || !alpha.on_cpu) return {Refusal::device, i};
  if (!growth.strided || !alpha.strided) return {Refusal::layout, i};
  const bool precise = growth.dtype == aoti_torch_dtype_float64();
  if ((!precise && growth.dtype != aoti_torch_dtype_float32()) || alpha.dtype != growth.dtype) {
    return {Refusal::state_dtype, i};
  }
  if (growth.size != 1 || alpha.size != 1) return {Refusal::state_shape, i};
  if (copies_.empty() || (precise && !copies_[speaker_].precise)) speaker_ = copies_.size();
  copies_.push_back({growth.data, alpha.data, precise});
  overlaps_.written(growth);
  overlaps_.written(alpha);
  return {};
}

// Rows too long for one block become works of their own, so that threads can share them.
void Step::place(const Work& work) {
  const bool row = call_.granularity == Granularity::row;
  if (!row || work.slot <= block) {
    if (work.size > 0 || (!row && !work.elementwise)) place_one(work);  // an empty tensor still has a slot
    return;
  }
  const Kernels& k = *work.kernels;
  for (int64_t at = 0, r = 0; at < work.size; at += work.slot, ++r) {
    Work part = work;
    part.x = static_cast<char*>(work.x) + at * k.parameter_size;
    part.g = static_cast<char*>(work.g) + at * k.parameter_size;
    part.m = static_cast<char*>(work.m) + at * k.momentum_size;
    part.growth = static_cast<char*>(work.growth) + r * k.computing_size;
    part.alpha = static_cast<char*>(work.alpha) + r * k.computing_size;
    part.size = work.slot;
    part.base = at;
    place_one(part);
  }
}

void Step::place_one(Work work) {
  const bool whole = work.slot == work.size && !work.elementwise;
  const bool two_passes = call_.granularity == Granularity::group ||
                          (whole && (work.size > block || work.size == 0 || split_));
  if (work.elementwise) {
    work.unit = 64;  // so that threads do not share cache lines
  } else if (!two_passes) {
    work.unit = work.slot;
  } else {
    work.unit = settings_.lazy ? std::max<int64_t>(1, block / work.row) * work.row : block;
  }
  work.first_block = -1;
  if (two_passes) {
    shared_ = true;
    work.first_block = blocks_;
    blocks_ += (work.size + work.unit - 1) / work.unit;
  }
  offsets_.push_back(total_size_);
  total_size_ += work.size;
  works_.push_back(work);
}

// Calls f(work, begin, end) for the units that start in each thread's share of all elements.
template <class F>
void Step::parallel(const F& f) const {
  torch::stable::parallel_for(0, total_size_, grain, [&](int64_t begin, int64_t end) {
    size_t i = std::upper_bound(offsets_.begin(), offsets_.end(), begin) - offsets_.begin() - 1;
    for (; i < works_.size() && offsets_[i] < end; ++i) {
      const Work& work = works_[i];
      const int64_t from = std::max<int64_t>(0, begin - offsets_[i]), until = end - offsets_[i];
      const int64_t first = (from + work.unit - 1) / work.unit * work.unit;
      const int64_t last = std::min(work.size, (until + work.unit - 1) / work.unit * work.unit);
      if (first < last) f(work, first, last);
    }
  });
}

void Step::run() {
  count_steps();
  const bool early = !settings_.beta && !settings_.project && !settings_.lazy;
  if (shared_) {
    measure(early);
    adapt(nullptr);
  }
  move(early);
}

void Step::count_steps() {
  for (float* counter : counters_) *counter += 1.0f;
}

void Step::unscale(const Work& work, int64_t begin, int64_t end) const {
  if (!call_.grad_scale) return;
  work.kernels->unscale(static_cast<char*>(work.g) + begin * work.kernels->parameter_size, end - begin, scale_);
}

void Step::measure(bool early) {
  partial_.assign(static_cast<size_t>(blocks_), Sums{});
  parallel([&](const Work& work, int64_t begin, int64_t end) {
    if (work.first_block < 0) return;
    for (int64_t at = begin; at < end; at += work.unit) {
      const int64_t until = std::min(at + work.unit, end);
      unscale(work, at, until);
      partial_[work.first_block + at / work.unit] = work.kernels->measure(work, at, until, early);
    }
  });
}

Sums Step::sum_of(const Work& work) const {
  Sums sum;
  const int64_t end = work.first_block + (work.size + work.unit - 1) / work.unit;
  for (int64_t i = work.first_block; i < end; ++i) {
    sum.gg += partial_[i].gg;
    sum.gm += partial_[i].gm;
  }
  return sum;
}

int64_t Step::sums() const {
  return call_.granularity == Granularity::group ? 1 : static_cast<int64_t>(works_.size());
}

void Step::write_sums(double* to) const {
  const bool group = call_.granularity == Granularity::group;
  std::fill(to, to + 2 * sums(), 0.0);
  for (size_t i = 0; i < works_.size(); ++i) {
    const Sums sum = sum_of(works_[i]);
    double* pair = to + (group ? 0 : 2 * i);
    pair[0] += sum.gg;
    pair[1] += sum.gm;
  }
}

void Step::apply(const double* sums) {
  count_steps();
  adapt(sums);
  move(false);
}

void Step::adapt(const double* given) {
  if (call_.granularity == Granularity::group) {
    double total[2];
    if (!given) write_sums(total);
    const double* sums = given ? given : total;
    adapt_group({sums[0], sums[1]});
    return;
  }
  for (size_t i = 0; i < works_.size(); ++i) {
    Work& work = works_[i];
    if (work.first_block < 0) continue;
    const bool precise = work.kernels->computing_size == 8;
    const Sums sum = given ? Sums{given[2 * i], given[2 * i + 1]} : sum_of(work);
    work.before = {value(work.growth, precise), value(work.alpha, precise)};
    work.after = work.kernels->adapt(work.settings, sum, work.before);
    assign(work.growth, precise, work.after.growth);
    assign(work.alpha, precise, work.after.alpha);
  }
}

void Step::adapt_group(Sums total) {
  if (copies_.empty() || works_.empty()) return;
  const Copy& speaker = copies_[speaker_];
  const Slot<double> before{value(speaker.growth, speaker.precise), value(speaker.alpha, speaker.precise)};
  const int32_t dtype = speaker.precise ? aoti_torch_dtype_float64() : aoti_torch_dtype_float32();
  const Slot<double> after = kernels_for(dtype, dtype)->adapt(works_.front().settings, total, before);
  for (const Copy& copy : copies_) {
    assign(copy.growth, copy.precise, after.growth);
    assign(copy.alpha, copy.precise, after.alpha);
  }
  for (Work& work : works_) {
    work.before = before;
    work.after = after;
  }
}

void Step::move(bool early) const {
  // A scaled gradient is divided piecewise, so that it is still in the cache when it is used.
  constexpr int64_t piece = 4096;
  parallel([&](const Work& work, int64_t begin, int64_t end) {
    if (work.first_block >= 0) {
      work.kernels->move(work, begin, end, early);
      return;
    }
    const int64_t size = call_.grad_scale && work.unit < piece ? piece / work.unit * work.unit : end - begin;
    for (int64_t at = begin; at < end; at += size) {
      const int64_t until = std::min(at + size, end);
      unscale(work, at, until);
      if (work.elementwise) {
        work.kernels->elements(work, at, until);
      } else {
        work.kernels->slots(work, at / work.slot, until / work.slot);
      }
    }
  });
}

}  // namespace gradagrad
