// A rule as the kernel runs it: loops over streams, generated from gradagrad/rules. The kernel knows no rule.
#pragma once

#include "formats.h"

namespace gradagrad {

// The streams of a loop, by number. Each is an array of equal length; phases hand sums, pace and traces on.
namespace stream {
constexpr int x = 0, g = 1, elements = 2, slots = 8, sums = 16, paces = 20, traces = 28, count = 32;
constexpr int stored = sums;  // those below are tensors
}  // namespace stream
constexpr int max_settings = 16;

template <class T>
struct Arguments {
  const double* settings;
  const T* pace;  // what all elements of a move are given
  T* const* streams;
  int64_t size;
  double* totals;  // what measure and move add their sums or traces to
};

constexpr int64_t staged_block = 128;
// The same where streams have formats of their own; `begin` is divisible by 16, `end - begin` by staged_block.
struct StagedArguments {
  const double* settings;
  const float* pace;
  char* const* data;
  const Format* formats;
  const int* lanes;      // of the random bits that round a stream, or -1: to nearest
  uint32_t pairs;        // of lanes that are needed, as bits
  const uint32_t* keys;  // by pair of lanes
  int64_t begin, end;
  double* totals;
};

// A row of a sparse gradient: where its values are, and its clock, the step it was last touched at.
struct TouchedRow {
  int64_t row;
  const char* values;
  int32_t* clock;  // null if rows need none
};

// The same for rows anywhere in tables of T, with their gradients.
template <class T>
struct RowArguments {
  const double* settings;
  const T* pace;
  char* const* data;
  const TouchedRow* rows;
  int64_t count, width;
  double* totals;
};

template <class T>
struct Loop {
  void (*run)(const Arguments<T>&);
  void (*rows)(const RowArguments<T>&);
  void (*staged)(const StagedArguments&);
  uint32_t reads, writes;  // bits by stream
  explicit operator bool() const { return run != nullptr; }  // the other forms may be missing
};

// The phases of a rule in one precision; those that it does not need are empty.
template <class T>
struct Loops {
  Loop<T> step;  // all phases, where every element is a slot
  Loop<T> measure, decide, move;
  Loop<T> measure_early, move_late;  // what a move only copies is written in measuring: where both are one step
  Loop<T> rest, rest_slots;
};

struct Rule {
  int elements, slots, sums, paces, traces, settings;
  bool lazy;                  // rows without a gradient stay
  int element_lanes[6], slot_lanes[8];  // of the random bits
  Loops<float> in_float;
  Loops<double> in_double;
  Loop<double> learn;

  template <class T>
  const Loops<T>& loops() const;
};
template <>
inline const Loops<float>& Rule::loops<float>() const {
  return in_float;
}
template <>
inline const Loops<double>& Rule::loops<double>() const {
  return in_double;
}

extern const Rule rules[];
extern const int64_t rule_count;

}  // namespace gradagrad
