// A rule as the kernel runs it: loops over streams, generated from gradagrad/rules. The kernel knows no rule.
#pragma once

#include "formats.h"

namespace gradagrad {

// The streams of a loop, by number. Each is an array; phases hand sums, factors and statistics on. Totals over all blocks are
// where sums were, which no later phase needs.
namespace stream {
constexpr int x = 0, g = 1, elements = 2, blocks = 6, sums = 21, totals = 21, factors = 26, statistics = 34, count = 39;
constexpr int stored = sums;  // those below are tensors
}  // namespace stream
constexpr int max_settings = 16;

// A piece of a parameter and of all its fields.
struct Range {
  int64_t begin;
  const char* gradient;  // of `begin`, if it is not beside the parameter's other elements
};

// `count` ranges of equal size in arrays that begin at `data`.
template <class T>
struct Arguments {
  const double* settings;
  const T* factors;  // what all elements of a move are given
  char* const* data;
  const Range* ranges;
  int64_t count, size;
  double* totals;        // what measure and move add their sums or statistics to
  uint32_t key;          // of the random bits
};

// The formats for which there is a loop of its own. The gradient has the parameter's format, and all fields one.
enum Formats : int8_t { own = 0, point_bf16 = 1, point_random = 2, state_bf16 = 3, formats_count = 6, through_buffers = -1 };

template <class T>
struct Loop {
  void (*over[formats_count])(const Arguments<T>&);  // by format of the parameter + format of its fields
  uint64_t reads, writes;                            // bits by stream
  explicit operator bool() const { return over[own] != nullptr; }
};

// The phases of a rule in one precision; those that it does not need are empty.
template <class T>
struct Loops {
  Loop<T> step;  // all phases, where every element is a block
  Loop<T> measure, decide, move;
  Loop<T> measure_early, move_late;  // what a move only copies is written in measuring: where both are one step
  Loop<T> move_brief;                // with the first statistic alone: where the last factor is 0
  Loop<T> idle, idle_blocks;
};

struct Rule {
  int elements, own, blocks, sums, factors, statistics, totals, settings;  // `own`: block fields that are not shared by all
  bool lazy;                  // rows without a gradient stay
  int element_words[4], block_words[15];  // of the random bits
  Loops<float> in_float;
  Loops<double> in_double;
  Loop<double> report, learn;

  template <class T>
  const Loops<T>& loops() const {
    if constexpr (std::is_same_v<T, float>) return in_float;
    else return in_double;
  }
};

extern const Rule rules[];
extern const int64_t rule_count;

}  // namespace gradagrad
