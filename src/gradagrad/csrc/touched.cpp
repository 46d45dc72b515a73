#include "touched.h"

namespace gradagrad {

namespace {

constexpr int64_t ahead = 32;  // rows lie anywhere in a table, so the hardware cannot guess the next one

}  // namespace

// Whether rows are stepped where they are: those that need no conversion and are worth it.
template <class T>
bool TouchedPass<T>::rows_in_place(const Loop<T>& loop) const {
  bool good = job_.width >= 8;
  for_each((loop.reads | loop.writes) & stored_streams, [&](int s) { good = good && this->in_place(s); });
  return good;
}

template <class T>
void TouchedPass<T>::run_rows(const Loop<T>& loop, const TouchedRow* rows, int64_t count, int32_t now, double* totals) {
  for (int64_t i = 0; i < count && rows[0].clock; ++i) catch_up_long(rows[i], now, false);
  loop.rows({settings_, pace_, job_.data, rows, count, job_.width, totals});
}

// Calls f(rows, count) for as many short rows as fit into the buffers, collected there one after the other.
template <class T>
template <class F>
void TouchedPass<T>::for_gathered(uint32_t reads, uint32_t writes, const TouchedRow* rows, int64_t count, const F& f) {
  const uint32_t loads = this->with_point(reads), streams = (loads | writes) & stored_streams;
  const int64_t width = job_.width, most = chunk / width;
  for (int64_t i = 0; i < count; i += most) {
    const int64_t size = std::min(most, count - i);
    this->point(streams, 0, nullptr, true);
    for (int64_t j = 0; j < size; ++j) {
      if (i + j + ahead < count) {
        const int64_t next = rows[i + j + ahead].row * width;
        for_each(streams & ~bit(stream::g), [&](int s) { __builtin_prefetch(job_.data[s] + next * size_of(job_.formats[s]), 1); });
      }
      this->load(loads, rows[i + j].row * width, rows[i + j].values, width, j * width);
    }
    f(rows + i, size);
    for (int64_t j = 0; writes && j < size; ++j) this->store(writes, rows[i + j].row * width, width, j * width);
  }
}

// Brings a row up to date whose fields are at hand: element fields at `offset`, slots there too or at `slot`.
template <class T>
void TouchedPass<T>::catch_up(const TouchedRow& row, int32_t now, int64_t offset, bool row_slots, int64_t slot) {
  if (!row.clock || *row.clock >= now) return;
  settings_[job_.rule->settings] = *row.clock;
  settings_[job_.rule->settings + 1] = now;
  if (loops_.rest) run(loops_.rest, offset, job_.width);
  if (loops_.rest_slots) run(loops_.rest_slots, row_slots ? slot : offset, row_slots ? 1 : job_.width);
}

template <class T>
void TouchedPass<T>::catch_up_long(const TouchedRow& row, int32_t now, bool row_slots) {
  if (!row.clock || *row.clock >= now) return;
  settings_[job_.rule->settings] = *row.clock;
  settings_[job_.rule->settings + 1] = now;
  const int64_t begin = row.row * job_.width, end = begin + job_.width;
  const auto rest = [&](const Loop<T>& loop, int64_t from, int64_t until) {
    if (loop) for_chunks(loop.reads, loop.writes, from, until, nullptr, [&](int64_t size) { run(loop, 0, size); });
  };
  rest(loops_.rest, begin, end);
  rest(loops_.rest_slots, row_slots ? row.row : begin, row_slots ? row.row + 1 : end);
}

template <class T>
void TouchedPass<T>::step(const TouchedRow* rows, int64_t count, int32_t now, bool row_slots) {
  const Rule& rule = *job_.rule;
  const int64_t width = job_.width;
  const uint32_t slots = (bit(rule.slots) - 1) << stream::slots;
  uint32_t writes = row_slots ? loops_.move.writes : loops_.step.writes;
  uint32_t reads = row_slots ? loops_.measure.reads | loops_.move.reads : loops_.step.reads;
  reads = (reads | loops_.rest.reads | (rule.lazy ? writes : 0)) & stored_streams & ~(row_slots ? slots : 0);
  writes |= loops_.rest.writes & ~(row_slots ? slots : 0);
  if (!row_slots && rows_in_place(loops_.step)) return run_rows(loops_.step, rows, count, now, nullptr);
  for (int64_t i = 0; width > chunk && i < count; ++i) {
    catch_up_long(rows[i], now, row_slots);
    if (row_slots) {
      this->step_long_row(rows[i].row, rows[i].values);
    } else {
      const int64_t begin = rows[i].row * width;
      for_chunks(reads, writes, begin, begin + width, rows[i].values, [&](int64_t size) { run(loops_.step, 0, size); });
    }
  }
  if (width > chunk) return;
  for_gathered(reads, writes, rows, count, [&](const TouchedRow* some, int64_t size) {
    for (int k = 0; row_slots && k < rule.slots; ++k) {
      at_[stream::slots + k] = buffers_[stream::slots + k];
      const T* from = reinterpret_cast<const T*>(job_.data[stream::slots + k]);
      for (int64_t j = 0; j < size; ++j) at_[stream::slots + k][j] = from[some[j].row];
    }
    for (int64_t j = 0; j < size; ++j) catch_up(some[j], now, j * width, row_slots, j);
    if (!row_slots) return run(loops_.step, 0, size * width);
    this->step_gathered_rows(size);
    for (int k = 0; k < rule.slots; ++k) {
      T* to = reinterpret_cast<T*>(job_.data[stream::slots + k]);
      for (int64_t j = 0; j < size; ++j) to[some[j].row] = at_[stream::slots + k][j];
    }
  });
}

template <class T>
void TouchedPass<T>::measure(const TouchedRow* rows, int64_t count, double* sums) {
  const int64_t width = job_.width;
  for (int64_t i = 0; width > chunk && i < count; ++i) {
    this->measure_range(loops_.measure, rows[i].row * width, (rows[i].row + 1) * width, rows[i].values, sums);
  }
  if (width > chunk) return;
  for_gathered(loops_.measure.reads, 0, rows, count, [&](const TouchedRow*, int64_t size) {
    run(loops_.measure, 0, size * width, sums);
  });
}

template <class T>
void TouchedPass<T>::move(const TouchedRow* rows, int64_t count, int32_t now, const double* pace, double* traces) {
  const int64_t width = job_.width;
  const uint32_t reads = (loops_.move.reads | loops_.rest.reads) & stored_streams;
  this->set_pace(pace);
  if (rows_in_place(loops_.move)) return run_rows(loops_.move, rows, count, now, traces);
  for (int64_t i = 0; width > chunk && i < count; ++i) {
    catch_up_long(rows[i], now, false);
    this->move_range(loops_.move, rows[i].row * width, (rows[i].row + 1) * width, rows[i].values, traces);
  }
  if (width > chunk) return;
  for_gathered(reads, loops_.move.writes & stored_streams, rows, count, [&](const TouchedRow* some, int64_t size) {
    for (int64_t j = 0; j < size; ++j) catch_up(some[j], now, j * width, false, 0);
    run(loops_.move, 0, size * width, traces);
  });
}

template class TouchedPass<float>;
template class TouchedPass<double>;

}  // namespace gradagrad
