// Pieces of a parameter and its state as arrays of what is computed with.
#pragma once

#include <algorithm>
#include <type_traits>

#include "formats.h"
#include "rules.h"

namespace gradagrad {

constexpr int point_lane = 4;  // gradagrad.rules.protocol.POINT_LANE
constexpr uint32_t bit(int s) { return 1u << s; }
constexpr uint32_t stored_streams = bit(stream::stored) - 1;

// Calls f(s) for each stream of a set.
template <class F>
GRADAGRAD_INLINE void for_each(uint32_t streams, const F& f) {
  for (; streams; streams &= streams - 1) f(__builtin_ctz(streams));
}

// One parameter of a step.
struct Job {
  const Rule* rule;
  char* data[stream::stored];  // by stream
  Format formats[stream::stored];
  int64_t size;   // elements
  int64_t width;  // elements of a first-dimension slice, a row
  bool in_double;     // what is computed with
  bool negated;       // maximize
  bool stochastic_x;  // bf16 parameters are rounded at random
  double coupled_decay;
  double settings[max_settings];  // with the parameter's own lr
  uint32_t keys[lane_pairs];      // of the random bits
};

// The elements of a job in pieces, as arrays of T, which is what is computed with: where they are if they have that format,
// else in buffers.
template <class T>
class Chunks {
 protected:
  // Elements that are handled together and stay in the nearest cache.
  static constexpr int64_t chunk = 512;

  explicit Chunks(const Job& job);
  bool in_place(int s) const;
  uint32_t with_point(uint32_t reads) const;
  void point(uint32_t streams, int64_t at, const char* gradient, bool gathered);
  void load(uint32_t streams, int64_t at, const char* gradient, int64_t size, int64_t to);
  int lane_of(int s) const;
  void store(uint32_t streams, int64_t at, int64_t size, int64_t from);
  void run(const Loop<T>& loop, int64_t offset, int64_t size, double* totals = nullptr);
  int64_t run_staged(const Loop<T>& loop, int64_t begin, int64_t end, double* totals) const;
  template <class F>
  void for_chunks(uint32_t reads, uint32_t writes, int64_t begin, int64_t end, const char* gradient, const F& f);
  void set_pace(const double* pace);

  const Job& job_;
  const Loops<T>& loops_;
  double settings_[max_settings];
  T pace_[stream::traces - stream::paces];
  T* at_[stream::count];    // where each stream is now
  uint32_t buffered_ = 0;  // streams that are in buffers
  alignas(64) T buffers_[stream::count][chunk + 64 / sizeof(T)];  // not a power of two apart, which caches dislike
  alignas(64) uint16_t low_[chunk], high_[chunk];
};

template <class T>
Chunks<T>::Chunks(const Job& job) : job_(job), loops_(job.rule->loops<T>()) {
  std::copy(job.settings, job.settings + max_settings, settings_);
  for (int s = stream::stored; s < stream::count; ++s) at_[s] = buffers_[s];
}

template <class T>
bool Chunks<T>::in_place(int s) const {
  return job_.formats[s] == own_format<T> && !(s == stream::g && (job_.negated || job_.coupled_decay != 0.0));
}

// Coupled decay makes the gradient depend on the point.
template <class T>
uint32_t Chunks<T>::with_point(uint32_t reads) const {
  return job_.coupled_decay != 0.0 && (reads & bit(stream::g)) ? reads | bit(stream::x) : reads;
}

template <class T>
void Chunks<T>::point(uint32_t streams, int64_t at, const char* gradient, bool gathered) {
  buffered_ = 0;
  for_each(streams & stored_streams, [&](int s) {
    if (!gathered && in_place(s)) {
      at_[s] = s == stream::g && gradient ? reinterpret_cast<T*>(const_cast<char*>(gradient))
                                          : reinterpret_cast<T*>(job_.data[s]) + at;
    } else {
      at_[s] = buffers_[s];
      buffered_ |= bit(s);
    }
  });
}

template <class T>
void Chunks<T>::load(uint32_t streams, int64_t at, const char* gradient, int64_t size, int64_t to) {
  streams &= buffered_;
  for_each(streams, [&](int s) {
    const char* from = s == stream::g && gradient ? gradient : job_.data[s] + at * size_of(job_.formats[s]);
    gradagrad::load(job_.formats[s], from, buffers_[s] + to, size);
  });
  if (streams & bit(stream::g)) {
    const T* x = job_.coupled_decay != 0.0 ? at_[stream::x] + to : nullptr;
    transform_gradient(at_[stream::g] + to, x, job_.negated, job_.coupled_decay, size);
  }
}

// Of the random bits that round a stream; -1: it is rounded to nearest, or not at all.
template <class T>
int Chunks<T>::lane_of(int s) const {
  if (job_.formats[s] != Format::bf16 || s == stream::g) return -1;  // a gradient is never written
  if (s == stream::x) return job_.stochastic_x ? point_lane : -1;
  return s < stream::slots ? job_.rule->element_lanes[s - stream::elements] : job_.rule->slot_lanes[s - stream::slots];
}

template <class T>
void Chunks<T>::store(uint32_t streams, int64_t at, int64_t size, int64_t from) {
  streams &= buffered_;
  int known = -1;  // pair of lanes whose random bits are at hand
  for_each(streams, [&](int s) {
    char* to = job_.data[s] + at * size_of(job_.formats[s]);
    const int lane = lane_of(s);
    if (lane < 0) return gradagrad::store(job_.formats[s], to, buffers_[s] + from, size);
    if (known != lane / 2) random_halves(job_.keys[lane / 2], at, size, low_, high_);
    known = lane / 2;
    store_stochastic(to, buffers_[s] + from, size, lane % 2 ? high_ : low_);
  });
}

template <class T>
void Chunks<T>::run(const Loop<T>& loop, int64_t offset, int64_t size, double* totals) {
  T* streams[stream::count];
  for_each(loop.reads | loop.writes, [&](int s) { streams[s] = at_[s] + offset; });
  loop.run({settings_, pace_, streams, size, totals});
}

// As much from `begin` on as can go through the staged form of a loop; returns where the rest begins.
template <class T>
int64_t Chunks<T>::run_staged(const Loop<T>& loop, int64_t begin, int64_t end, double* totals) const {
  const uint32_t streams = (loop.reads | loop.writes) & stored_streams;
  bool wanted = false;
  int lanes[stream::stored];
  uint32_t pairs = 0;
  for_each(streams, [&](int s) {
    wanted = wanted || !in_place(s);
    lanes[s] = lane_of(s);
    if (lanes[s] >= 0 && (loop.writes & bit(s))) pairs |= bit(lanes[s] / 2);
  });
  if constexpr (std::is_same_v<T, float>) {
    const int64_t until = begin + (end - begin) / staged_block * staged_block;
    if (!wanted || !loop.staged || job_.negated || job_.coupled_decay != 0.0 || begin % 16 != 0) return begin;
    loop.staged({settings_, pace_, job_.data, job_.formats, lanes, pairs, job_.keys, begin, until, totals});
    return until;
  }
  return begin;
}

// Calls f(size) for pieces of [begin, end): all of it at once where nothing has to go through a buffer. `gradient` is that of
// `begin`, if it is not beside the parameter's other elements.
template <class T>
template <class F>
void Chunks<T>::for_chunks(uint32_t reads, uint32_t writes, int64_t begin, int64_t end, const char* gradient, const F& f) {
  const uint32_t loads = with_point(reads), streams = loads | writes;
  point(streams, begin, gradient, false);
  const int64_t most = buffered_ ? chunk : end - begin;
  for (int64_t at = begin; at < end; at += most) {
    const int64_t size = std::min(most, end - at);
    const char* slope = gradient ? gradient + (at - begin) * size_of(job_.formats[stream::g]) : nullptr;
    if (at != begin) point(streams, at, slope, false);
    load(loads, at, slope, size, 0);
    f(size);
    store(writes, at, size, 0);
  }
}

template <class T>
void Chunks<T>::set_pace(const double* pace) {
  for (int k = 0; k < job_.rule->paces; ++k) pace_[k] = static_cast<T>(pace[k]);
}

}  // namespace gradagrad
