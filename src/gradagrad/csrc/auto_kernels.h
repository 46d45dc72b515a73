// The loops compiled for one pair of formats, once per instruction set.
#pragma once

#include "auto_loops.h"

#define GRADAGRAD_AUTO_KERNELS(name, P, S)                                                                            \
  namespace name {                                                                                                    \
  GRADAGRAD_CLONES Sums measure(const Work& work, const Numbers& numbers, int64_t begin, int64_t end) {               \
    return Loops<P, S>::measure(work, numbers, begin, end);                                                           \
  }                                                                                                                   \
  GRADAGRAD_CLONES void move(const Work& work, const Numbers& numbers, int64_t begin, int64_t end) {                  \
    Loops<P, S>::move(work, numbers, begin, end);                                                                     \
  }                                                                                                                   \
  GRADAGRAD_CLONES Sums measure_rows(                                                                                 \
      const Work& work, const Numbers& numbers, const Touched* touched, int64_t begin, int64_t end) {                 \
    return Loops<P, S>::measure_rows(work, numbers, touched, begin, end);                                             \
  }                                                                                                                   \
  GRADAGRAD_CLONES void move_rows(                                                                                    \
      const Work& work, const Numbers& numbers, const Touched* touched, int64_t begin, int64_t end) {                 \
    Loops<P, S>::move_rows(work, numbers, touched, begin, end);                                                       \
  }                                                                                                                   \
  static const Kernels kernels{sizeof(P), sizeof(S), measure, move, measure_rows, move_rows};                         \
  }
