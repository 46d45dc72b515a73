// Elements with bf16 state, by hand for AVX2. The compiler's own vectors lose half their time on conversions between 16 and
// 32 bits, and a single loop is too long for the processor to look past its roots and quotients. So: three short loops over a
// piece, each ending in what takes long, with the rounding of what is already known in its shadow. The rule is rule.h's.
#pragma once

#include "lanes.h"
#include "loops.h"

namespace gradagrad {

template <class P, bool BETA>
struct Avx2 {
  using R = Rule<Lanes, BETA, false>;
  static constexpr int64_t piece = 128;

  // `size` and `index` are divisible by 16, `size` is at most a piece.
  static GRADAGRAD_INLINE void step_piece(
      const R& rule, P* __restrict x, const P* __restrict g, bf16* __restrict m, bf16* __restrict growth,
      bf16* __restrict alpha, int64_t size, uint32_t key, uint32_t index) {
    __m256i hashes[piece / 16];
    float stretches[piece], clips[piece], roots[piece], vs[BETA ? piece : 1];
    Weyl weyl(key, index);
    for (int64_t i = 0; i < size; i += 16) {
      const __m256i hash = weyl.next();
      hashes[i / 16] = hash;
      Lanes after[2];
#pragma GCC unroll 2
      for (int64_t half = 0; half < 2; ++half) {
        const int64_t at = i + 8 * half;
        const Lanes a = rule.gradient(rule.zero, load8(g + at)), before = load8(alpha + at);
        const Lanes gg = a * a, agreement = rule.rho * (a * load8(m + at));
        const Lanes v = rule.v(gg, agreement, Slot<Lanes>{rule.one, before});
        after[half] = rule.accumulated(v, before);
        store8(stretches + at, rule.squared_stretch(v, rule.ratio(v, before), before));
        store8(clips + at, rule.by_clip(gg, agreement));
        store8(roots + at, root(at_least(after[half], rule.tiny)));
        if (BETA) store8(vs + at, v);
      }
      store_slot16(alpha + i, after[0], after[1], hash);
    }
    for (int64_t i = 0; i < size; i += 16) {
#pragma GCC unroll 2
      for (int64_t at = i; at < i + 16; at += 8) {
        const Lanes v = BETA ? load8(vs + at) : rule.zero;
        store8(stretches + at, rule.clipped(v, root(load8(stretches + at)), load8(clips + at)));
      }
      if (!BETA) store_gradient(rule, g, m, i, hashes[i / 16]);
    }
    for (int64_t i = 0; i < size; i += 16) {
      Lanes xs[2], ms[2], growths[2];
#pragma GCC unroll 2
      for (int64_t half = 0; half < 2; ++half) {
        const int64_t at = i + 8 * half;
        const Lanes stretch = load8(stretches + at), v = BETA ? load8(vs + at) : rule.zero, before = load8(growth + at);
        xs[half] = load8(x + at);
        ms[half] = BETA ? load8(m + at) : rule.zero;
        growths[half] = rule.grown(rule.factor(v, stretch), before);
        rule.move(
            xs[half], rule.gradient(rule.zero, load8(g + at)), ms[half],
            rule.pace(v, stretch, before, growths[half], load8(roots + at) + rule.eps));
      }
      store16(x + i, xs[0], xs[1]);
      store_slot16(growth + i, growths[0], growths[1], hashes[i / 16]);
      if (BETA) store_momentum16(m + i, ms[0], ms[1], hashes[i / 16]);
    }
  }

  // Without momentum the new m is the gradient, known long before anything else.
  static GRADAGRAD_INLINE void store_gradient(const R& rule, const P* g, bf16* m, int64_t i, __m256i hash) {
    store_momentum16(
        m + i, rule.gradient(rule.zero, load8(g + i)), rule.gradient(rule.zero, load8(g + i + 8)), hash);
  }

  static GRADAGRAD_INLINE void elements(const Work& work, int64_t begin, int64_t end) {
    const R rule(work.settings);
    // Sixteen at a time share eight hashes; what does not fit is left to the other loops.
    const int64_t whole = (work.base + begin) % 16 == 0 ? begin + (end - begin) / 16 * 16 : begin;
    P* x = static_cast<P*>(work.x);
    const P* g = static_cast<const P*>(work.g);
    bf16* m = static_cast<bf16*>(work.m);
    bf16* growth = static_cast<bf16*>(work.growth);
    bf16* alpha = static_cast<bf16*>(work.alpha);
    for (int64_t at = begin; at < whole; at += piece) {
      const int64_t size = whole - at < piece ? whole - at : piece;
      step_piece(rule, x + at, g + at, m + at, growth + at, alpha + at, size, work.key, static_cast<uint32_t>(work.base + at));
    }
    if (whole < end) Loops<P, bf16, BETA, false>::elements(work, whole, end);
  }
};

}  // namespace gradagrad
