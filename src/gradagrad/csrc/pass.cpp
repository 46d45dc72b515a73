#include "pass.h"

namespace gradagrad {

template <class T>
void Pass<T>::step(int64_t begin, int64_t end) {
  begin = this->run_staged(loops_.step, begin, end, nullptr);
  for_chunks(loops_.step.reads, loops_.step.writes, begin, end, nullptr, [&](int64_t size) { run(loops_.step, 0, size); });
}

template <class T>
void Pass<T>::measure_range(const Loop<T>& loop, int64_t begin, int64_t end, const char* gradient, double* sums) {
  for_chunks(loop.reads, loop.writes, begin, end, gradient, [&](int64_t size) { run(loop, 0, size, sums); });
}

template <class T>
void Pass<T>::move_range(const Loop<T>& loop, int64_t begin, int64_t end, const char* gradient, double* traces) {
  if (!gradient) begin = this->run_staged(loop, begin, end, traces);
  for_chunks(loop.reads, loop.writes, begin, end, gradient, [&](int64_t size) { run(loop, 0, size, traces); });
}

template <class T>
bool Pass<T>::any_gradient(int64_t begin, int64_t end, const char* gradient) {
  bool found = false;
  for_chunks(bit(stream::g), 0, begin, end, gradient, [&](int64_t size) {
    const T* g = at_[stream::g];
    found = found || std::any_of(g, g + size, [](T a) { return a != T(0); });
  });
  return found;
}

template <class T>
void Pass<T>::measure(int64_t begin, int64_t end, double* sums, bool early) {
  measure_range(early && loops_.measure_early ? loops_.measure_early : loops_.measure, begin, end, nullptr, sums);
}

template <class T>
void Pass<T>::move(int64_t begin, int64_t end, const double* pace, double* traces, bool early) {
  const Loop<T>& loop = early && loops_.move_late ? loops_.move_late : loops_.move;
  this->set_pace(pace);
  if (!job_.rule->lazy) return move_range(loop, begin, end, nullptr, traces);
  for (int64_t at = begin; at < end; at += job_.width) {  // whole rows: see Step
    if (any_gradient(at, at + job_.width, nullptr)) move_range(loop, at, at + job_.width, nullptr, traces);
  }
}

// Rows that are at hand one after the other, with their slots.
template <class T>
void Pass<T>::step_gathered_rows(int64_t count) {
  const Rule& rule = *job_.rule;
  const int64_t width = job_.width;
  for (int64_t i = 0; i < count; ++i) {
    double sums[stream::paces - stream::sums] = {};
    run(loops_.measure, i * width, width, sums);
    for (int k = 0; k < rule.sums; ++k) at_[stream::sums + k][i] = static_cast<T>(sums[k]);
  }
  run(loops_.decide, 0, count);
  for (int64_t i = 0; i < count; ++i) {
    const T* g = at_[stream::g] + i * width;
    if (rule.lazy && !std::any_of(g, g + width, [](T a) { return a != T(0); })) continue;
    for (int k = 0; k < rule.paces; ++k) pace_[k] = at_[stream::paces + k][i];
    run(loops_.move, i * width, width);
  }
}

template <class T>
void Pass<T>::step_long_row(int64_t row, const char* gradient) {
  const Rule& rule = *job_.rule;
  const int64_t begin = row * job_.width, end = begin + job_.width;
  double sums[stream::paces - stream::sums] = {};
  measure_range(loops_.measure, begin, end, gradient, sums);
  for (int k = 0; k < rule.sums; ++k) at_[stream::sums + k][0] = static_cast<T>(sums[k]);
  for (int k = 0; k < rule.slots; ++k) {
    at_[stream::slots + k] = reinterpret_cast<T*>(job_.data[stream::slots + k]) + row;
  }
  run(loops_.decide, 0, 1);
  for (int k = 0; k < rule.paces; ++k) pace_[k] = at_[stream::paces + k][0];
  if (!rule.lazy || any_gradient(begin, end, gradient)) move_range(loops_.move, begin, end, gradient, nullptr);
}

template <class T>
void Pass<T>::step_rows(int64_t begin, int64_t end) {
  const Rule& rule = *job_.rule;
  const int64_t width = job_.width, most = std::max<int64_t>(1, chunk / width);
  const uint32_t writes = loops_.move.writes, reads = loops_.measure.reads | loops_.move.reads | (rule.lazy ? writes : 0);
  for (int64_t r = begin; r < end; r += most) {
    if (width > chunk) {
      step_long_row(r, nullptr);
      continue;
    }
    const int64_t count = std::min(most, end - r);
    for_chunks(reads & stored_streams, writes, r * width, (r + count) * width, nullptr, [&](int64_t) {
      for (int k = 0; k < rule.slots; ++k) {
        at_[stream::slots + k] = reinterpret_cast<T*>(job_.data[stream::slots + k]) + r;
      }
      step_gathered_rows(count);
    });
  }
}

template class Pass<float>;
template class Pass<double>;

}  // namespace gradagrad
