// The loops compiled for one pair of formats, in each form and for each instruction set.
#pragma once

#include "loops.h"

// Picks the compiled form for these settings; the choice is made once per call, not per element. The short form is worth its
// compilation only where memory streams through; elsewhere the options cost nothing beside the rest.
#define GRADAGRAD_FORM(P, S, call)                                                         \
  do {                                                                                     \
    const bool beta = work.settings.beta != 0.0, options = work.settings.options();        \
    if (options) return beta ? Loops<P, S, true, true>::call : Loops<P, S, false, true>::call; \
    return beta ? Loops<P, S, true, false>::call : Loops<P, S, false, false>::call;        \
  } while (0)
#define GRADAGRAD_FULL_FORM(P, S, call) \
  return work.settings.beta != 0.0 ? Loops<P, S, true, true>::call : Loops<P, S, false, true>::call

// The outermost functions, one set per pair of formats, each cloned per instruction set. FORM is one of the two above: the
// short form is compiled only for the common pairs.
#define GRADAGRAD_KERNELS(name, P, S) GRADAGRAD_KERNELS_IN(name, P, S, GRADAGRAD_FORM)
#define GRADAGRAD_RARE_KERNELS(name, P, S) GRADAGRAD_KERNELS_IN(name, P, S, GRADAGRAD_FULL_FORM)
#define GRADAGRAD_KERNELS_IN(name, P, S, FORM)                                                                    \
  namespace name {                                                                                                \
  GRADAGRAD_CLONES void elements(const Work& work, int64_t begin, int64_t end) {                                  \
    FORM(P, S, elements(work, begin, end));                                                                       \
  }                                                                                                               \
  GRADAGRAD_CLONES void slots(const Work& work, int64_t begin, int64_t end) {                                     \
    GRADAGRAD_FULL_FORM(P, S, slots(work, begin, end));                                                                \
  }                                                                                                               \
  GRADAGRAD_CLONES Sums measure(const Work& work, int64_t begin, int64_t end, bool early) {                       \
    if (work.settings.options()) return Loops<P, S, false, true>::measure(work, begin, end, early);                    \
    return Loops<P, S, false, false>::measure(work, begin, end, early);                                           \
  }                                                                                                               \
  GRADAGRAD_CLONES void move(const Work& work, int64_t begin, int64_t end, bool early) {                          \
    FORM(P, S, move(work, begin, end, early));                                                                    \
  }                                                                                                               \
  GRADAGRAD_CLONES void rows(const Work& work, const Touched* touched, int64_t begin, int64_t end) {              \
    GRADAGRAD_FULL_FORM(P, S, rows(work, touched, begin, end));                                                        \
  }                                                                                                               \
  static Slot<double> adapt(const Settings& settings, Sums sum, Slot<double> before) {                            \
    return Loops<P, S, false, true>::adapt(settings, sum, before);                                                \
  }                                                                                                               \
  static void gather(                                                                                             \
      const Work& work, const int64_t* positions, int64_t count, const void* values, void* to, double scale) {    \
    Loops<P, S, false, false>::gather(work, positions, count, values, to, scale);                                 \
  }                                                                                                               \
  GRADAGRAD_CLONES void unscale(void* g, int64_t size, double scale) {                                            \
    using C = computing_t<P, S>;                                                                                  \
    P* values = static_cast<P*>(g);                                                                               \
    const C divisor = static_cast<C>(scale);                                                                      \
    for (int64_t i = 0; i < size; ++i) store(values[i], load<C>(values[i]) / divisor);                            \
  }                                                                                                               \
  static const Kernels kernels{                                                                                   \
      sizeof(P), sizeof(S), sizeof(computing_t<P, S>), elements, slots, measure, move, adapt, unscale, rows, gather};     \
  }
