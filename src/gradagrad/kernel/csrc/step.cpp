#include "step.h"

#include <torch/csrc/stable/ops.h>

#include <algorithm>

namespace gradagrad {

// Elements whose sums are added up as one, and the fewest that are worth a thread.
constexpr int64_t piece = 16384;
constexpr int64_t grain = 32768;
constexpr int64_t lines = 64;  // so that threads do not share cache lines

Role Settings::role_of(const View& x, bool block) const {
  const uint32_t own = one_of(x.kind == Kind::f64 ? Kind::f64 : Kind::f32);
  Role role{own | one_of(Kind::bf16), Refusal::state_dtype, Refusal::state_shape, &x, 0, true};
  if (!block || scope == Scope::element) return role;
  role.kinds = single() ? one_of(Kind::f64) : own;
  role.like = nullptr;
  role.count = single() || x.dim == 0 ? 1 : x.sizes[0];
  return role;
}

Verdict put(Job& job, int stream, const View& a, const Role& role, Checklist& checklist, int64_t index) {
  job.data[stream] = static_cast<char*>(a.data);
  job.formats[stream] = static_cast<Format>(a.kind);
  return checklist.add(a, role, index);
}

Verdict put_parameter(Job& job, const View& x, Checklist& checklist, int64_t index) {
  job.size = x.size;
  job.width = row_length(x);
  job.in_double = x.kind == Kind::f64;
  return put(job, stream::x, x, {parameter_kinds, Refusal::parameter_dtype, Refusal::none, &x, 0, true}, checklist, index);
}

void Settings::set(Job& job, int64_t steps, int64_t stream) const {
  job.rule = rule;
  job.negated = maximize;
  job.coupled_decay = coupled_decay;
  job.stochastic_x = stochastic_x;
  const bool elementwise = scope == Scope::element || (scope == Scope::row && job.width == 1);
  job.kind = kind_of(job, rule->elements, elementwise ? rule->blocks : 0);
  std::copy(values.begin(), values.end(), job.settings);
  if (lr_decay != 0.0) {  // as torch operations do it, in the precision of the parameter
    const double lr = values[0];
    job.settings[0] = job.in_double
                          ? 1.0 / (1.0 + static_cast<double>(steps) * lr_decay) * lr
                          : 1.0f / (1.0f + static_cast<float>(steps) * static_cast<float>(lr_decay)) * static_cast<float>(lr);
  }
  job.settings[rule->settings + 2] = static_cast<double>(job.size);  // after the two clocks
  job.key = random_key(seed, steps + 1, stream);
}

Step::Step(Settings settings, StableIValue params, StableIValue grads, std::shared_ptr<const Handles> state,
           std::vector<int64_t> streams)
    : Prepared(std::move(settings)), params_(params), grads_(grads), state_(std::move(state)), streams_(std::move(streams)) {}

Verdict Step::prepare() {
  const Rule& rule = *settings_.rule;
  const int64_t count = params_.size(), own = settings_.shared() ? 0 : rule.own;
  const bool fits = static_cast<int64_t>(streams_.size()) == count || streams_.empty();
  if (grads_.size() != count || !fits || state_->size() != count * (1 + rule.elements + own) + rule.blocks - own) {
    return {Refusal::lengths, 0};
  }
  Checklist checklist(count * (3 + rule.elements + rule.blocks));
  jobs_.reserve(count);
  places_.reserve(count);
  counters_.reserve(count);
  for (int64_t i = 0; i < count; ++i) {
    if (const Verdict verdict = add(i, checklist)) return verdict;
  }
  return checklist.overlaps();
}

Verdict Step::add(int64_t i, Checklist& checklist) {
  const Rule& rule = *settings_.rule;
  const Handles& state = *state_;
  const int64_t count = params_.size();
  const View x = view(params_[i]), g = view(grads_[i]), counter = view(state[i]);
  jobs_.emplace_back();
  Job& job = jobs_.back();
  put_parameter(job, x, checklist, i);
  put(job, stream::g, g, {one_of(x.kind), Refusal::gradient_dtype, Refusal::gradient_shape, &x, 0, false}, checklist, i);
  checklist.add(counter, counting, i);
  for (int k = 0; k < rule.elements; ++k) {
    put(job, stream::elements + k, view(state[count * (1 + k) + i]), settings_.role_of(x, false), checklist, i);
  }
  const int64_t first_block = count * (1 + rule.elements), own = settings_.shared() ? 0 : rule.own;
  for (int k = 0; k < rule.blocks; ++k) {
    const int s = stream::blocks + k;
    if (settings_.is_shared(k) && i > 0) {
      job.data[s] = jobs_[0].data[s];
    } else {
      const View a = view(state[first_block + (settings_.is_shared(k) ? own * count + k - own : k * count + i)]);
      put(job, s, a, settings_.role_of(x, true), checklist, i);
    }
  }
  if (const Verdict verdict = checklist.verdict()) return verdict;
  const bool by_row = settings_.scope == Scope::row || (rule.lazy && settings_.scope != Scope::element);
  if (by_row && !rows_outermost(x)) return {Refusal::rows, i};
  counters_.push_back(static_cast<int64_t*>(counter.data));
  settings_.set(job, *counters_.back(), streams_.empty() ? 0 : streams_[i]);
  place(job);
  return {};
}

void Step::place(const Job& job) {
  Place place{total_, lines, -1, false};
  if (settings_.scope == Scope::row && job.width > 1) {
    place.unit = job.width;
  } else if (settings_.single()) {
    const bool alone = settings_.scope == Scope::tensor && !settings_.rule->learn;
    place.short_block = alone && job.size > 0 && job.size <= piece;
    place.unit = settings_.rule->lazy ? std::max<int64_t>(1, piece / job.width) * job.width : piece;
    place.first_block = blocks_;
    blocks_ += (job.size + place.unit - 1) / place.unit;
  }
  total_ += job.size;
  places_.push_back(place);
}

// Calls f(job, begin, end) for the units that start in each thread's share of all elements.
template <class F>
void Step::parallel(const F& f) const {
  torch::stable::parallel_for(0, total_, grain, [&](int64_t begin, int64_t end) {
    const auto after = [](int64_t at, const Place& place) { return at < place.offset; };
    size_t i = std::upper_bound(places_.begin(), places_.end(), begin, after) - places_.begin() - 1;
    for (; i < jobs_.size() && places_[i].offset < end; ++i) {
      const Place& place = places_[i];
      const int64_t from = std::max<int64_t>(0, begin - place.offset), until = end - place.offset;
      const int64_t first = (from + place.unit - 1) / place.unit * place.unit;
      const int64_t last = std::min(jobs_[i].size, (until + place.unit - 1) / place.unit * place.unit);
      if (first < last) f(i, first, last);
    }
  });
}

void Step::count_steps() {
  for (int64_t* counter : counters_) ++*counter;
}

void Step::run() {
  if (settings_.single()) {
    std::vector<double> sums(static_cast<size_t>(blocks() * rule().sums)), statistics(static_cast<size_t>(blocks() * rule().statistics));
    whole_ = true;
    measure(sums.data());
    move(sums.data(), statistics.data());
    if (rule().learn) {
      learn(statistics.data());
    } else {
      write_blocks(sums.data());
    }
    return;
  }
  count_steps();
  parallel([&](size_t i, int64_t begin, int64_t end) {
    const Job& job = jobs_[i];
    with_pass(job, [&](auto& pass) {
      if (settings_.scope == Scope::row && job.width > 1) {
        pass.step_rows(begin / job.width, end / job.width);
      } else {
        pass.step(begin, end);
      }
    });
  });
}

// Calls f(job, pass, begin, end, sums) for all units. Adds up their `count` sums in their order, so that the number of threads
// makes no difference.
template <class F>
void Step::in_units(int count, double* totals, const F& f) {
  units_.assign(static_cast<size_t>(blocks_ * count), 0.0);
  parallel([&](size_t i, int64_t begin, int64_t end) {
    const Place& place = places_[i];
    with_pass(jobs_[i], [&](auto& pass) {
      for (int64_t at = begin; at < end; at += place.unit) {
        f(i, pass, at, std::min(at + place.unit, end), units_.data() + (place.first_block + at / place.unit) * count);
      }
    });
  });
  std::fill(totals, totals + blocks() * count, 0.0);
  for (size_t i = 0; i < jobs_.size(); ++i) {
    const int64_t units = (jobs_[i].size + places_[i].unit - 1) / places_[i].unit;
    const double* unit = units_.data() + places_[i].first_block * count;
    double* total = totals + block_of(i) * count;
    for (int64_t u = 0; u < units; ++u) {
      for (int k = 0; k < count; ++k) total[k] += *unit++;
    }
  }
}

void Step::measure(double* sums) {
  const int count = rule().sums;
  if (count == 0) return;
  in_units(count, sums, [&](size_t i, auto& pass, int64_t begin, int64_t end, double* to) {
    if (!at_once(i)) pass.measure(begin, end, to, whole_);
  });
}

void Step::move(const double* sums, double* statistics) {
  count_steps();
  decided_.clear();
  decided_.reserve(jobs_.size());
  for (size_t i = 0; i < jobs_.size(); ++i) {
    // With lr_decay the parameters of one block may have learning rates of their own.
    if (settings_.shared() && i > 0 && jobs_[i].settings[0] == jobs_[i - 1].settings[0]) {
      decided_.push_back(decided_.back());
      continue;
    }
    decided_.emplace_back(jobs_[i]);
    if (!at_once(i)) decided_.back().decide(sums + block_of(i) * rule().sums);
  }
  in_units(rule().statistics, statistics, [&](size_t i, auto& pass, int64_t begin, int64_t end, double* to) {
    Block& block = decided_[i];
    if (at_once(i)) {  // It is one unit.
      double own[stream::factors - stream::sums] = {};
      if (rule().sums) pass.measure(begin, end, own, whole_);
      block.decide(own);
    }
    pass.move(begin, end, block.factors(), to, whole_);
    if (at_once(i)) block.write();
  });
}

void Step::write_blocks(const double* sums) {
  for (size_t i = 0; i < (settings_.shared() ? std::min<size_t>(1, jobs_.size()) : jobs_.size()); ++i) {
    if (at_once(i)) continue;
    Block block(jobs_[i]);
    block.decide(sums + block_of(i) * rule().sums);
    block.write();
  }
}

// Every block reports before any learns, and every block has learned before any is written.
void Step::learn(const double* statistics) {
  double totals[stream::factors - stream::totals] = {};
  for (size_t i = 0; i < decided_.size(); ++i) decided_[i].report(statistics + i * rule().statistics, totals);
  for (Block& block : decided_) block.learn(totals);
  for (const Block& block : decided_) block.write();
}

}  // namespace gradagrad
