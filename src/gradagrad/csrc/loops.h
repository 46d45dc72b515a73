// The loops over memory: `Work` is one parameter (or one long row of one), `Kernels` the loops for its pair of formats.
#pragma once

#include "rule.h"

namespace gradagrad {

struct Kernels;

struct Work {
  void* x;
  void* g;
  void* m;
  void* growth;
  void* alpha;
  int64_t size;      // elements
  int64_t slot;      // elements that share a step size and lie together: 1, a row, or all
  bool elementwise;  // every element is a slot, and slots are stored in the momentum's format
  int64_t row;   // elements of one first-dimension slice, which `lazy` looks at as a whole
  int64_t base;  // index of the first element in its parameter, for the random bits
  uint32_t key;
  Settings settings;
  const Kernels* kernels;
  // Where a shared slot stood and stands; set between measuring and moving.
  Slot<double> before, after;
  int64_t unit;         // elements that one thread handles together
  int64_t first_block;  // of its partial sums; -1 if one pass suffices
};

// A row of a sparse gradient and where its values are.
struct Touched {
  int64_t row;
  const void* values;
};

struct Sums {
  double gg = 0.0, gm = 0.0;
};

struct Kernels {
  int64_t parameter_size, momentum_size, computing_size;  // bytes
  // One pass: every element its own slot, elements [begin, end).
  void (*elements)(const Work&, int64_t begin, int64_t end);
  // One pass: slots of `work.slot` elements, slots [begin, end).
  void (*slots)(const Work&, int64_t begin, int64_t end);
  // Two passes: Σ g² and Σ g·m of [begin, end), then its move. `early` writes m while it is in the cache anyway, which
  // saves reading it again: with β = 0 the new m is g.
  Sums (*measure)(const Work&, int64_t begin, int64_t end, bool early);
  void (*move)(const Work&, int64_t begin, int64_t end, bool early);
  // (growth, alpha) before → after, given a shared slot's sums.
  Slot<double> (*adapt)(const Settings&, Sums, Slot<double>);
  // Divides the gradient by GradScaler's scale, in place, as torch's fused optimizers do.
  void (*unscale)(void* g, int64_t size, double scale);
  // Touched rows [begin, end) of a sparse gradient; a slot is an element or a row.
  void (*rows)(const Work&, const Touched*, int64_t begin, int64_t end);
  void (*gather)(const Work&, const int64_t* positions, int64_t count, const void* values, void* to, double scale);
};

template <class P, class S, bool BETA, bool OPTIONS>
struct Loops {
  using C = computing_t<P, S>;
  using R = Rule<C, BETA, OPTIONS>;

  // Elements are their own slots. Nothing is prefetched: the hardware follows these streams by itself, and a burst of
  // prefetches makes it wait (measured: a tenth slower).
  static constexpr int64_t piece = 1024;

  static GRADAGRAD_INLINE void elements(const Work& work, int64_t begin, int64_t end) {
    const R rule(work.settings);
    P* x = static_cast<P*>(work.x);
    const P* g = static_cast<const P*>(work.g);
    S* m = static_cast<S*>(work.m);
    S* growth = static_cast<S*>(work.growth);
    S* alpha = static_cast<S*>(work.alpha);
    for (int64_t at = begin; at < end; at += piece) {
      const auto size = static_cast<int32_t>(end - at < piece ? end - at : piece);
      const auto index = static_cast<uint32_t>(work.base + at);
      step_piece(rule, x + at, g + at, m + at, growth + at, alpha + at, size, work.key, index);
    }
  }

  static GRADAGRAD_INLINE void step_piece(
      const R& rule, P* __restrict x, const P* __restrict g, S* __restrict m, S* __restrict growth, S* __restrict alpha,
      int32_t size, uint32_t key, uint32_t index) {
#pragma GCC ivdep
    for (int32_t i = 0; i < size; ++i) {
      C a = load<C>(x[i]), b = load<C>(m[i]);
      const C old_a = a, old_b = b, slope = rule.gradient(a, load<C>(g[i]));
      const Slot<C> before{load<C>(growth[i]), load<C>(alpha[i])};
      const C gg = slope * slope, agreement = rule.rho * (slope * b);
      const C v = rule.v(gg, agreement, before);
      const C stretch = root(rule.squared_stretch(v, rule.ratio(v, before.alpha), before.alpha));
      const C clipped = rule.clipped(v, stretch, rule.by_clip(gg, agreement));
      const Slot<C> after{rule.grown(rule.factor(v, clipped), before.growth), rule.accumulated(v, before.alpha)};
      rule.move(a, slope, b, rule.pace(v, clipped, before.growth, after.growth, rule.root_of(after.alpha)));
      const bool stays = OPTIONS && rule.lazy && slope == C(0);
      const uint32_t random = sizeof(S) == 2 ? random_bits(key, index + static_cast<uint32_t>(i)) : 0;
      store(x[i], stays ? old_a : a);
      store(m[i], stays ? old_b : b, random & 0xffffu);
      store(growth[i], after.growth, random >> 16);
      store(alpha[i], after.alpha, random >> 16);
    }
  }

  static GRADAGRAD_INLINE Sums sums(
      const R& rule, const P* __restrict x, const P* __restrict g, const S* __restrict m, int64_t size) {
    // In double, where products of floats are exact: the order of summation then hardly matters, and blocks make it
    // independent of the number of threads.
    double gg = 0.0, gm = 0.0;
    if (OPTIONS && rule.coupled) {
#pragma omp simd reduction(+ : gg, gm)
      for (int64_t i = 0; i < size; ++i) {
        const double a = rule.gradient(load<C>(x[i]), load<C>(g[i]));
        gg += a * a;
        gm += a * load<double>(m[i]);
      }
    } else {
#pragma omp simd reduction(+ : gg, gm)
      for (int64_t i = 0; i < size; ++i) {
        const double a = load<double>(g[i]);
        gg += a * a;
        gm += a * load<double>(m[i]);
      }
      gm *= rule.sign;
    }
    return {gg, gm};
  }

  static GRADAGRAD_INLINE void move_range(
      const R& rule, const typename R::Pace& pace, P* __restrict x, const P* __restrict g, S* __restrict m, int64_t size,
      uint32_t key, uint32_t index) {
#pragma GCC ivdep
    for (int64_t i = 0; i < size; ++i) {
      C a = load<C>(x[i]), b = BETA ? load<C>(m[i]) : C(0);
      rule.move(a, rule.gradient(a, load<C>(g[i])), b, pace);
      store(x[i], a);
      store(m[i], b, sizeof(S) == 2 ? random_bits(key, index + static_cast<uint32_t>(i)) & 0xffffu : 0);
    }
  }

  static GRADAGRAD_INLINE bool any(const P* g, int64_t size) {
    bool found = false;
    for (int64_t i = 0; i < size; ++i) found |= load<C>(g[i]) != C(0);
    return found;
  }

  // Moves whole rows; a lazy step leaves those without gradient alone.
  static GRADAGRAD_INLINE void move_rows(
      const R& rule, const typename R::Pace& pace, const Work& work, P* x, const P* g, S* m, int64_t size,
      uint32_t index) {
    if (!(OPTIONS && rule.lazy)) {
      move_range(rule, pace, x, g, m, size, work.key, index);
      return;
    }
    for (int64_t i = 0; i < size; i += work.row) {
      if (any(g + i, work.row)) {
        move_range(rule, pace, x + i, g + i, m + i, work.row, work.key, index + static_cast<uint32_t>(i));
      }
    }
  }

  static GRADAGRAD_INLINE void slot(const R& rule, const Work& work, P* x, const P* g, S* m, C& growth, C& alpha, int64_t at) {
    const Sums sum = sums(rule, x, g, m, work.slot);
    const Slot<C> before{growth, alpha};
    const Slot<C> after = rule.adapt(static_cast<C>(sum.gg), static_cast<C>(sum.gm), before);
    move_rows(rule, rule.pace(before, after), work, x, g, m, work.slot, static_cast<uint32_t>(work.base + at));
    growth = after.growth;
    alpha = after.alpha;
  }

  static GRADAGRAD_INLINE void slots(const Work& work, int64_t begin, int64_t end) {
    const R rule(work.settings);
    P* x = static_cast<P*>(work.x);
    const P* g = static_cast<const P*>(work.g);
    S* m = static_cast<S*>(work.m);
    C* growth = static_cast<C*>(work.growth);
    C* alpha = static_cast<C*>(work.alpha);
    for (int64_t s = begin; s < end; ++s) {
      const int64_t at = s * work.slot;
      slot(rule, work, x + at, g + at, m + at, growth[s], alpha[s], at);
    }
  }

  static GRADAGRAD_INLINE void rows(const Work& work, const Touched* touched, int64_t begin, int64_t end) {
    const R rule(work.settings);
    P* x = static_cast<P*>(work.x);
    S* m = static_cast<S*>(work.m);
    const int64_t width = work.row, ahead = 32;
    for (int64_t i = begin; i < end; ++i) {
      const int64_t row = touched[i].row, at = row * width;
      const P* __restrict g = static_cast<const P*>(touched[i].values);
      if (work.elementwise) {
        P* to = x + at;
        S* momentum = m + at;
        S* growth = static_cast<S*>(work.growth) + at;
        S* alpha = static_cast<S*>(work.alpha) + at;
        if (i + ahead < end) {  // rows lie anywhere in the table, so the hardware cannot guess the next one
          const int64_t next = touched[i + ahead].row * width;
          __builtin_prefetch(x + next, 1);
          __builtin_prefetch(m + next, 1);
          __builtin_prefetch(static_cast<S*>(work.growth) + next, 1);
          __builtin_prefetch(static_cast<S*>(work.alpha) + next, 1);
        }
        for (int64_t j = 0; j < width; j += piece) {
          const auto size = static_cast<int32_t>(width - j < piece ? width - j : piece);
          step_piece(rule, to + j, g + j, momentum + j, growth + j, alpha + j, size, work.key, static_cast<uint32_t>(at + j));
        }
      } else {
        C* growth = static_cast<C*>(work.growth) + row;
        C* alpha = static_cast<C*>(work.alpha) + row;
        if (i + ahead < end) {
          __builtin_prefetch(x + touched[i + ahead].row * width, 1);
          __builtin_prefetch(m + touched[i + ahead].row * width, 1);
          __builtin_prefetch(static_cast<C*>(work.growth) + touched[i + ahead].row, 1);
          __builtin_prefetch(static_cast<C*>(work.alpha) + touched[i + ahead].row, 1);
        }
        slot(rule, work, x + at, g, m + at, *growth, *alpha, at);
      }
    }
  }

  // Adds up the values of a row that occurs several times, in the order of occurrence, and undoes GradScaler's scale.
  static GRADAGRAD_INLINE void gather(
      const Work& work, const int64_t* positions, int64_t count, const void* values, void* to, double scale) {
    const P* from = static_cast<const P*>(values);
    P* __restrict sum = static_cast<P*>(to);
    const C divisor = static_cast<C>(scale);
    for (int64_t j = 0; j < work.row; ++j) store(sum[j], load<C>(from[positions[0] * work.row + j]));
    for (int64_t i = 1; i < count; ++i) {
      const P* __restrict next = from + positions[i] * work.row;
      for (int64_t j = 0; j < work.row; ++j) store(sum[j], load<C>(sum[j]) + load<C>(next[j]));
    }
    for (int64_t j = 0; j < work.row; ++j) store(sum[j], load<C>(sum[j]) / divisor);
  }

  static GRADAGRAD_INLINE Sums measure(const Work& work, int64_t begin, int64_t end, bool early) {
    const R rule(work.settings);
    const P* __restrict x = static_cast<const P*>(work.x) + begin;
    const P* __restrict g = static_cast<const P*>(work.g) + begin;
    S* __restrict m = static_cast<S*>(work.m) + begin;
    // In chunks, so that the gradient is still in the nearest cache when it becomes the momentum.
    constexpr int64_t chunk = 1024;
    Sums sum;
    for (int64_t at = 0; at < end - begin; at += chunk) {
      const int64_t size = end - begin - at < chunk ? end - begin - at : chunk;
      const Sums part = sums(rule, x + at, g + at, m + at, size);
      sum.gg += part.gg;
      sum.gm += part.gm;
      if (!early) continue;
      const auto index = static_cast<uint32_t>(work.base + begin + at);
#pragma GCC ivdep
      for (int64_t i = at; i < at + size; ++i) {
        const C a = rule.gradient(load<C>(x[i]), load<C>(g[i]));
        store(m[i], a, sizeof(S) == 2 ? random_bits(work.key, index + static_cast<uint32_t>(i - at)) & 0xffffu : 0);
      }
    }
    return sum;
  }

  static GRADAGRAD_INLINE void move(const Work& work, int64_t begin, int64_t end, bool early) {
    const R rule(work.settings);
    const Slot<C> before{static_cast<C>(work.before.growth), static_cast<C>(work.before.alpha)};
    const Slot<C> after{static_cast<C>(work.after.growth), static_cast<C>(work.after.alpha)};
    const typename R::Pace pace = rule.pace(before, after);
    P* __restrict x = static_cast<P*>(work.x) + begin;
    const P* __restrict g = static_cast<const P*>(work.g) + begin;
    if (early) {
#pragma GCC ivdep
      for (int64_t i = 0; i < end - begin; ++i) {
        C a = load<C>(x[i]), unused = C(0);
        rule.move(a, rule.gradient(a, load<C>(g[i])), unused, pace);
        store(x[i], a);
      }
    } else {
      move_rows(rule, pace, work, x, g, static_cast<S*>(work.m) + begin, end - begin, static_cast<uint32_t>(work.base + begin));
    }
  }

  static GRADAGRAD_INLINE Slot<double> adapt(const Settings& settings, Sums sum, Slot<double> before) {
    const R rule(settings);
    const Slot<C> after = rule.adapt(
        static_cast<C>(sum.gg), static_cast<C>(sum.gm), {static_cast<C>(before.growth), static_cast<C>(before.alpha)});
    return {static_cast<double>(after.growth), static_cast<double>(after.alpha)};
  }
};

}  // namespace gradagrad
