#include "pass.h"

#include <algorithm>
#include <utility>

namespace gradagrad {

namespace {

constexpr uint64_t bit(int s) { return uint64_t{1} << s; }

// Calls f(s) for each stream of a set.
template <class F>
void for_each(uint64_t streams, const F& f) {
  for (; streams; streams &= streams - 1) f(__builtin_ctzll(streams));
}

}  // namespace

Formats kind_of(const Job& job, int elements, int blocks) {
  const Format own_one = job.in_double ? Format::f64 : Format::f32, x = job.formats[stream::x];
  const Format state = elements ? job.formats[stream::elements] : blocks ? job.formats[stream::blocks] : own_one;
  bool good = !job.negated && job.coupled_decay == 0.0;
  for (int k = 0; k < elements; ++k) good = good && job.formats[stream::elements + k] == state;
  for (int k = 0; k < blocks; ++k) good = good && job.formats[stream::blocks + k] == state;
  if (good && x == own_one && state == own_one) return own;
  if (!good || job.in_double || x == Format::f16) return through_buffers;
  const int point = x == own_one ? own : job.stochastic_x ? point_random : point_bf16;
  return static_cast<Formats>(point + (state == own_one ? own : state_bf16));
}

template <class T>
Pass<T>::Pass(const Job& job) : job_(job), loops_(job.rule->loops<T>()) {
  std::copy(job.settings, job.settings + max_settings, settings_);
}

// Where everything is if there is a loop for its formats, else through buffers of T.
template <class T>
void Pass<T>::run(const Loop<T>& loop, const Range* ranges, int64_t count, int64_t size, double* totals) {
  if (job_.kind != through_buffers && loop.over[job_.kind]) {
    return loop.over[job_.kind]({settings_, factors_, job_.data, ranges, count, size, totals, job_.key});
  }
  for (int64_t i = 0; i < count; ++i) run_buffered(loop, ranges[i], size, totals);
}

template <class T>
void Pass<T>::run_buffered(const Loop<T>& loop, const Range& range, int64_t size, double* totals) {
  char* data[stream::stored];
  for (int s = 0; s < stream::stored; ++s) data[s] = reinterpret_cast<char*>(buffers_[s]);
  const Range here{0, nullptr};
  for (int64_t at = 0; at < size; at += chunk) {
    const int64_t some = std::min(chunk, size - at);
    load(loop.reads, range, at, some);
    loop.over[own]({settings_, factors_, data, &here, 1, some, totals, job_.key});
    store(loop.writes, range.begin + at, some);
  }
}

template <class T>
void Pass<T>::load(uint64_t streams, const Range& range, int64_t at, int64_t size) {
  const bool transformed = streams & bit(stream::g), decayed = transformed && job_.coupled_decay != 0.0;
  for_each(decayed ? streams | bit(stream::x) : streams, [&](int s) {
    const bool apart = s == stream::g && range.gradient;
    const char* from = apart ? range.gradient : job_.data[s] + range.begin * size_of(job_.formats[s]);
    Arrays<T>::load(job_.formats[s], from + at * size_of(job_.formats[s]), buffers_[s], size);
  });
  if (!transformed) return;
  Arrays<T>::transform_gradient(buffers_[stream::g], buffers_[stream::x], job_.negated, job_.coupled_decay, size);
}

template <class T>
void Pass<T>::store(uint64_t streams, int64_t index, int64_t size) {
  int known = -1;  // which number after its own has the random bits that are at hand for each element
  for_each(streams, [&](int s) {
    const int word = word_of(s);
    if (word >= 0 && known != word / 2) draw(random_, job_.key, index + (known = word / 2), size);
    char* to = job_.data[s] + index * size_of(job_.formats[s]);
    Arrays<T>::store(job_.formats[s], to, buffers_[s], size, word < 0 ? nullptr : random_.bits(), word);
  });
}

// Of the random bits that round a stream; -1: it is rounded to nearest, or not at all.
template <class T>
int Pass<T>::word_of(int s) const {
  if (job_.formats[s] != Format::bf16 || s == stream::g) return -1;  // a gradient is never written
  if (s == stream::x) return job_.stochastic_x ? point_word : -1;
  return s < stream::blocks ? job_.rule->element_words[s - stream::elements] : job_.rule->block_words[s - stream::blocks];
}

template <class T>
bool Pass<T>::any_gradient(const Range& range) {
  if (range.gradient && job_.formats[stream::g] == own_format<T> && job_.coupled_decay == 0.0) {
    const T* g = reinterpret_cast<const T*>(range.gradient);
    return std::any_of(g, g + job_.width, [](T a) { return a != T(0); });
  }
  for (int64_t at = 0; at < job_.width; at += chunk) {
    const int64_t size = std::min(chunk, job_.width - at);
    load(bit(stream::g), range, at, size);
    const T* g = buffers_[stream::g];
    if (std::any_of(g, g + size, [](T a) { return a != T(0); })) return true;
  }
  return false;
}

template <class T>
void Pass<T>::set_factors(const double* factors) {
  constexpr double largest = std::numeric_limits<T>::max();
  for (int k = 0; k < job_.rule->factors; ++k) factors_[k] = static_cast<T>(at_most(factors[k], largest));
}

template <class T>
const Loop<T>& Pass<T>::move_loop(const double* factors) const {
  return loops_.move_brief && factors[job_.rule->factors - 1] == 0.0 ? loops_.move_brief : loops_.move;
}

template <class T>
void Pass<T>::step(int64_t begin, int64_t end) {
  const Range range{begin, nullptr};
  run(loops_.step, &range, 1, end - begin, nullptr);
}

template <class T>
void Pass<T>::measure(int64_t begin, int64_t end, double* sums, bool early) {
  const Range range{begin, nullptr};
  run(early && loops_.measure_early ? loops_.measure_early : loops_.measure, &range, 1, end - begin, sums);
}

template <class T>
void Pass<T>::move(int64_t begin, int64_t end, const double* factors, double* statistics, bool early) {
  const Loop<T>& loop = early && loops_.move_late ? loops_.move_late : move_loop(factors);
  const int64_t unit = job_.rule->lazy ? job_.width : end - begin;  // whole rows: see Step
  set_factors(factors);
  for (Range range{begin, nullptr}; range.begin < end; range.begin += unit) {
    if (!job_.rule->lazy || any_gradient(range)) run(loop, &range, 1, unit, statistics);
  }
}

template <class T>
void Pass<T>::move(const Range* rows, int64_t count, const double* factors, double* statistics) {
  set_factors(factors);
  run(move_loop(factors), rows, count, job_.width, statistics);
}

template <class T>
void Pass<T>::step_rows(int64_t begin, int64_t end) {
  constexpr int64_t most = 64;
  Range rows[most];
  for (int64_t r = begin; r < end; r += most) {
    const int64_t count = std::min(most, end - r);
    for (int64_t i = 0; i < count; ++i) rows[i] = {(r + i) * job_.width, nullptr};
    step_rows(rows, count);
  }
}

// Touched rows lie anywhere in a table, so the hardware cannot guess the next one. Inlined, because GCC drops calls of functions
// that only prefetch.
template <class T>
GRADAGRAD_INLINE void Pass<T>::prefetch(const Range& range) const {
  if (!range.gradient) return;  // The next row is beside this one.
  const int64_t row = range.begin / job_.width;
  for (int s = 0; s < stream::elements + job_.rule->elements; ++s) {
    const int64_t bytes = job_.width * size_of(job_.formats[s]);
    const char* from = s == stream::g ? range.gradient : job_.data[s] + row * bytes;
    for (int64_t at = 0; at < bytes; at += 64) __builtin_prefetch(from + at);
  }
  for (int s = stream::blocks; s < stream::blocks + job_.rule->blocks; ++s) {
    __builtin_prefetch(job_.data[s] + row * int64_t{sizeof(T)});
  }
}

// As many at once as stay in the nearest cache.
template <class T>
void Pass<T>::step_rows(const Range* rows, int64_t count) {
  constexpr int64_t most = 64;
  const Rule& rule = *job_.rule;
  const int64_t width = job_.width, together = std::clamp<int64_t>(chunk / width, 1, most);
  const Range here{0, nullptr};
  T gathered[stream::count][most];
  char* data[stream::count];
  for (int s = 0; s < stream::count; ++s) data[s] = reinterpret_cast<char*>(gathered[s]);
  for (int64_t i = 0; i < std::min(together, count); ++i) prefetch(rows[i]);
  for (int64_t r = 0; r < count; r += together) {
    const int64_t some = std::min(together, count - r);
    for (int64_t i = 0; i < some; ++i) {
      if (r + i + together < count) prefetch(rows[r + i + together]);
      double sums[stream::factors - stream::sums] = {};
      run(loops_.measure, rows + r + i, 1, width, sums);
      for (int k = 0; k < rule.sums; ++k) gathered[stream::sums + k][i] = static_cast<T>(sums[k]);
      const int64_t row = rows[r + i].begin / width;
      for (int s = stream::blocks; s < stream::blocks + rule.blocks; ++s) {
        gathered[s][i] = reinterpret_cast<const T*>(job_.data[s])[row];
      }
    }
    loops_.decide.over[own]({settings_, nullptr, data, &here, 1, some, nullptr, 0});
    for (int64_t i = 0; i < some; ++i) {
      const int64_t row = rows[r + i].begin / width;
      for (int s = stream::blocks; s < stream::blocks + rule.blocks; ++s) {
        reinterpret_cast<T*>(job_.data[s])[row] = gathered[s][i];
      }
      if (rule.lazy && !any_gradient(rows[r + i])) continue;
      for (int k = 0; k < rule.factors; ++k) factors_[k] = gathered[stream::factors + k][i];
      run(loops_.move, rows + r + i, 1, width, nullptr);
    }
  }
}

template <class T>
void Pass<T>::catch_up(const Range* rows, int64_t count, double* clocks, double now, double after, bool row_blocks) {
  const int64_t width = job_.width;
  for (int64_t i = 0; i < count; ++i) {
    const Range fields{rows[i].begin, nullptr}, block{rows[i].begin / width, nullptr};
    const double since = std::exchange(clocks[block.begin], after);
    if (since >= now) continue;
    settings_[job_.rule->settings] = since;
    settings_[job_.rule->settings + 1] = now;
    if (loops_.idle) run(loops_.idle, &fields, 1, width, nullptr);
    if (loops_.idle_blocks && row_blocks) {
      loops_.idle_blocks.over[own]({settings_, nullptr, job_.data, &block, 1, 1, nullptr, 0});
    } else if (loops_.idle_blocks) {
      run(loops_.idle_blocks, &fields, 1, width, nullptr);
    }
  }
}

template class Pass<float>;
template class Pass<double>;

Block::Block(const Job& job) : job_(&job) {
  for (int s = stream::blocks; s < stream::blocks + job.rule->blocks; ++s) std::memcpy(values_ + s, job.data[s], sizeof(double));
}

void Block::decide(const double* sums) {
  std::copy(sums, sums + job_->rule->sums, values_ + stream::sums);
  run(job_->rule->in_double.decide);
}

void Block::report(const double* statistics, double* totals) {
  std::copy(statistics, statistics + job_->rule->statistics, values_ + stream::statistics);
  run(job_->rule->report);
  for (int k = 0; k < job_->rule->totals; ++k) totals[k] += values_[stream::totals + k];
}

void Block::learn(const double* totals) {
  std::copy(totals, totals + job_->rule->totals, values_ + stream::totals);
  run(job_->rule->learn);
}

void Block::write() const {
  for (int s = stream::blocks; s < stream::blocks + job_->rule->blocks; ++s) {
    std::memcpy(job_->data[s], values_ + s, sizeof(double));
  }
}

void Block::run(const Loop<double>& loop) {
  const Range here{0, nullptr};
  char* data[stream::count];
  for (int s = 0; s < stream::count; ++s) data[s] = reinterpret_cast<char*>(values_ + s);
  loop.over[own]({job_->settings, nullptr, data, &here, 1, 1, nullptr, 0});
}

}  // namespace gradagrad
