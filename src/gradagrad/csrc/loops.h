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
  int64_t size;  // elements
  int64_t slot;  // elements that share a step size and lie together: 1, a row, or all
  int64_t row;   // elements of one first-dimension slice, which `lazy` looks at as a whole
  int64_t base;  // index of the first element in its parameter, for the random bits
  uint32_t key;
  Settings settings;
  const Kernels* kernels;
  // Where a shared slot stood and stands; set between measuring and moving.
  Slot<double> before, after;
  int64_t first_block;  // of its partial sums
};

struct Sums {
  double gg = 0.0, gm = 0.0;
};

struct Kernels {
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
  // Touched rows of a sparse gradient: slots of `work.slot` elements within rows of `work.row`, values in order of rows.
  void (*rows)(const Work&, const int64_t* rows, int64_t begin, int64_t end);
};

template <class P, class S, bool BETA, bool GENERAL>
struct Loops {
  using C = computing_t<P, S>;
  using R = Rule<C, BETA, GENERAL>;

  // An L1-sized piece at a time, so that short-lived conversions of the compiler stay there.
  static GRADAGRAD_INLINE void elements(const Work& work, int64_t begin, int64_t end) {
    const R rule(work.settings);
    P* __restrict x = static_cast<P*>(work.x);
    const P* __restrict g = static_cast<const P*>(work.g);
    S* __restrict m = static_cast<S*>(work.m);
    S* __restrict growth = static_cast<S*>(work.growth);
    S* __restrict alpha = static_cast<S*>(work.alpha);
    const uint32_t key = work.key, base = static_cast<uint32_t>(work.base);
#pragma omp simd
    for (int64_t i = begin; i < end; ++i) {
      element(rule, x[i], g[i], m[i], growth[i], alpha[i], key, base + static_cast<uint32_t>(i));
    }
  }

  static GRADAGRAD_INLINE void element(
      const R& rule, P& px, const P& pg, S& pm, S& pgrowth, S& palpha, uint32_t key, uint32_t index) {
    C x = load<C>(px), m = load<C>(pm);
    const C old_x = x, old_m = m;
    const C g = rule.gradient(x, load<C>(pg));
    const Slot<C> before{load<C>(pgrowth), load<C>(palpha)};
    const Slot<C> after = rule.adapt(g * g, g * m, before);
    rule.move(x, g, m, rule.pace(before, after));
    if (GENERAL && rule.lazy) {
      x = g != C(0) ? x : old_x;
      m = g != C(0) ? m : old_m;
    }
    const uint32_t random = sizeof(S) == 2 ? random_bits(key, index) : 0;
    store(px, x);
    store(pm, m, random & 0xffffu);
    store(pgrowth, after.growth, random >> 16);
    store(palpha, after.alpha, random >> 16);
  }

  static GRADAGRAD_INLINE Sums sums(
      const R& rule, const P* __restrict x, const P* __restrict g, const S* __restrict m, int64_t size) {
    // In double, where products of floats are exact: the order of summation then hardly matters, and blocks make it
    // independent of the number of threads.
    double gg = 0.0, gm = 0.0;
    if (GENERAL && rule.coupled) {
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
#pragma omp simd
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
    if (!(GENERAL && rule.lazy)) {
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

  static GRADAGRAD_INLINE void rows(const Work& work, const int64_t* rows, int64_t begin, int64_t end) {
    const R rule(work.settings);
    P* x = static_cast<P*>(work.x);
    const P* g = static_cast<const P*>(work.g);
    S* m = static_cast<S*>(work.m);
    for (int64_t i = begin; i < end; ++i) {
      const int64_t row = rows[i], at = row * work.row;
      if (work.slot == 1) {
        S* growth = static_cast<S*>(work.growth) + at;
        S* alpha = static_cast<S*>(work.alpha) + at;
        const P* __restrict values = g + i * work.row;
        P* __restrict to = x + at;
        S* __restrict momentum = m + at;
#pragma omp simd
        for (int64_t j = 0; j < work.row; ++j) {
          element(rule, to[j], values[j], momentum[j], growth[j], alpha[j], work.key, static_cast<uint32_t>(at + j));
        }
      } else {
        C* growth = static_cast<C*>(work.growth) + row;
        C* alpha = static_cast<C*>(work.alpha) + row;
        slot(rule, work, x + at, g + i * work.row, m + at, *growth, *alpha, at);
      }
    }
  }

  static GRADAGRAD_INLINE Sums measure(const Work& work, int64_t begin, int64_t end, bool early) {
    const R rule(work.settings);
    const P* __restrict x = static_cast<const P*>(work.x) + begin;
    const P* __restrict g = static_cast<const P*>(work.g) + begin;
    S* __restrict m = static_cast<S*>(work.m) + begin;
    const Sums sum = sums(rule, x, g, m, end - begin);
    if (early) {
      const uint32_t key = work.key, index = static_cast<uint32_t>(work.base + begin);
#pragma omp simd
      for (int64_t i = 0; i < end - begin; ++i) {
        const C a = rule.gradient(load<C>(x[i]), load<C>(g[i]));
        store(m[i], a, sizeof(S) == 2 ? random_bits(key, index + static_cast<uint32_t>(i)) & 0xffffu : 0);
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
#pragma omp simd
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

// Picks the compiled form for these settings; the choice is made once per block, not per element.
#define GRADAGRAD_FORM(P, S, call)                                              \
  do {                                                                          \
    const bool beta = settings.beta != 0.0, general = settings.general();       \
    if (beta && general) return Loops<P, S, true, true>::call;                  \
    if (beta) return Loops<P, S, true, false>::call;                            \
    if (general) return Loops<P, S, false, true>::call;                         \
    return Loops<P, S, false, false>::call;                                     \
  } while (0)

// The outermost functions, one set per pair of formats, each cloned per instruction set.
#define GRADAGRAD_KERNELS(name, P, S)                                                                             \
  namespace name {                                                                                                \
  GRADAGRAD_CLONES void elements(const Work& work, int64_t begin, int64_t end) {                                  \
    const Settings& settings = work.settings;                                                                     \
    GRADAGRAD_FORM(P, S, elements(work, begin, end));                                                             \
  }                                                                                                               \
  GRADAGRAD_CLONES void slots(const Work& work, int64_t begin, int64_t end) {                                     \
    const Settings& settings = work.settings;                                                                     \
    GRADAGRAD_FORM(P, S, slots(work, begin, end));                                                                \
  }                                                                                                               \
  GRADAGRAD_CLONES Sums measure(const Work& work, int64_t begin, int64_t end, bool early) {                       \
    const Settings& settings = work.settings;                                                                     \
    if (settings.general()) return Loops<P, S, false, true>::measure(work, begin, end, early);                    \
    return Loops<P, S, false, false>::measure(work, begin, end, early);                                           \
  }                                                                                                               \
  GRADAGRAD_CLONES void move(const Work& work, int64_t begin, int64_t end, bool early) {                          \
    const Settings& settings = work.settings;                                                                     \
    GRADAGRAD_FORM(P, S, move(work, begin, end, early));                                                          \
  }                                                                                                               \
  GRADAGRAD_CLONES void rows(const Work& work, const int64_t* touched, int64_t begin, int64_t end) {              \
    const Settings& settings = work.settings;                                                                     \
    GRADAGRAD_FORM(P, S, rows(work, touched, begin, end));                                                        \
  }                                                                                                               \
  static Slot<double> adapt(const Settings& settings, Sums sum, Slot<double> before) {                            \
    return Loops<P, S, false, true>::adapt(settings, sum, before);                                                \
  }                                                                                                               \
  GRADAGRAD_CLONES void unscale(void* g, int64_t size, double scale) {                                            \
    using C = computing_t<P, S>;                                                                                  \
    P* values = static_cast<P*>(g);                                                                               \
    const C divisor = static_cast<C>(scale);                                                                      \
    for (int64_t i = 0; i < size; ++i) store(values[i], load<C>(values[i]) / divisor);                            \
  }                                                                                                               \
  static const Kernels kernels{elements, slots, measure, move, adapt, unscale, rows};                             \
  }

}  // namespace gradagrad
