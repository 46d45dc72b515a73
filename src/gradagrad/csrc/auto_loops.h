// The loops of AutoGradaGrad over memory: `Work` is one parameter, `Kernels` the loops for its pair of formats.
#pragma once

#include <type_traits>

#include "auto_rule.h"
#include "loops.h"

namespace gradagrad::shared {

struct Kernels;

struct Work {
  void* x;
  void* g;
  void* h;
  void* B;
  void* mean;       // null without averaging
  int32_t* clocks;  // of a sparse gradient's parameter: the step each row's average belongs to
  int64_t size;     // elements
  int64_t row;      // elements of one first-dimension slice
  uint32_t key, mean_key;
  int64_t first_block;  // of its partial sums
  const Kernels* kernels;
};

struct Kernels {
  int64_t parameter_size, state_size;  // bytes
  Sums (*measure)(const Work&, const Numbers&, int64_t begin, int64_t end);
  void (*move)(const Work&, const Numbers&, int64_t begin, int64_t end);
  // The same for touched rows [begin, end) of a sparse gradient.
  Sums (*measure_rows)(const Work&, const Numbers&, const Touched*, int64_t begin, int64_t end);
  void (*move_rows)(const Work&, const Numbers&, const Touched*, int64_t begin, int64_t end);
};

template <class P, class S>
struct Loops {
  using C = computing_t<P, S>;
  using R = Rule<C>;

  // Elements that are handled together and stay in the nearest cache.
  static constexpr int32_t stretch = 128, ways = 4, piece = stretch * ways;

  // Asks for the piece that comes next while this one is computed; past the end of memory nothing happens.
  template <class T>
  static GRADAGRAD_INLINE void fetch(const T* at, bool write) {
    constexpr int64_t line = 64;
    for (int64_t byte = 0; byte < piece * static_cast<int64_t>(sizeof(T)); byte += line) {
      if (write) {
        __builtin_prefetch(reinterpret_cast<const char*>(at) + byte, 1);
      } else {
        __builtin_prefetch(reinterpret_cast<const char*>(at) + byte, 0);
      }
    }
  }

  // Adds WAYS stretches of `size` elements. In double, since float32 would lose what single elements add to a long sum; but
  // first one element of each stretch to the others in computing precision, which is as exact as the terms are: turning
  // each of them into a double would take longer than all the rest.
  template <bool COUPLED, int32_t WAYS>
  static GRADAGRAD_INLINE void summed(
      const R& rule, const P* __restrict x, const P* __restrict g, const S* __restrict h, const S* __restrict B, int32_t size,
      Sums& sums) {
    alignas(64) C terms[sums_count][stretch];
#pragma GCC ivdep
    for (int32_t i = 0; i < size; ++i) {
      typename R::Terms sum;
#pragma GCC unroll 4
      for (int32_t way = 0; way < WAYS; ++way) {
        const int32_t j = i + way * stretch;
        const C slope = COUPLED ? rule.gradient(load<C>(x[j]), load<C>(g[j])) : load<C>(g[j]) * rule.sign;
        rule.measure(slope, load<C>(h[j]), load<C>(B[j]), sum);
      }
#pragma GCC unroll 16
      for (int32_t s = 0; s < sums_count; ++s) terms[s][i] = sum.values[s];
    }
    for (int32_t s = 0; s < sums_count; ++s) {
      double total = 0.0;
#pragma omp simd reduction(+ : total)
      for (int32_t i = 0; i < size; ++i) total += static_cast<double>(terms[s][i]);
      sums.values[s] += total;
    }
  }

  template <bool COUPLED>
  static GRADAGRAD_INLINE Sums measured(const R& rule, const P* x, const P* g, const S* h, const S* B, int64_t size) {
    Sums sums;
    int64_t at = 0;
    for (; at + piece <= size; at += piece) {
      fetch(g + at + piece, false);
      fetch(h + at + piece, false);
      fetch(B + at + piece, false);
      summed<COUPLED, ways>(rule, x + at, g + at, h + at, B + at, stretch, sums);
    }
    for (; at < size; at += stretch) {
      const auto left = static_cast<int32_t>(size - at < stretch ? size - at : stretch);
      summed<COUPLED, 1>(rule, x + at, g + at, h + at, B + at, left, sums);
    }
    return sums;
  }

  static GRADAGRAD_INLINE Sums measure(const Work& work, const Numbers& numbers, int64_t begin, int64_t end) {
    const R rule(numbers);
    const P* x = static_cast<const P*>(work.x) + begin;
    const P* g = static_cast<const P*>(work.g) + begin;
    const S* h = static_cast<const S*>(work.h) + begin;
    const S* B = static_cast<const S*>(work.B) + begin;
    return numbers.coupled_decay != 0.0 ? measured<true>(rule, x, g, h, B, end - begin)
                                        : measured<false>(rule, x, g, h, B, end - begin);
  }

  // `random_bits` of a piece: low halves for h and the average, high ones for B.
  struct Bits {
    alignas(64) uint16_t low[piece], high[piece];

    GRADAGRAD_INLINE Bits(uint32_t key, uint32_t index, int32_t size) {
      if (index % 16) {  // a row anywhere
        for (int32_t i = 0; i < size; ++i) {
          const uint32_t random = random_bits(key, index + static_cast<uint32_t>(i));
          low[i] = static_cast<uint16_t>(random);
          high[i] = static_cast<uint16_t>(random >> 16);
        }
        return;
      }
      const uint32_t first = random_pair(index);
      uint32_t hashes[piece / 2];
      const int32_t pairs = (size + 15) / 16 * 8;
#pragma GCC ivdep
      for (int32_t i = 0; i < pairs; ++i) hashes[i] = random_hash(key, first + static_cast<uint32_t>(i));
      for (int32_t i = 0; i < pairs; i += 8) {
#pragma GCC ivdep
        for (int32_t j = 0; j < 8; ++j) {
          low[2 * i + j] = high[2 * i + 8 + j] = static_cast<uint16_t>(hashes[i + j]);
          high[2 * i + j] = low[2 * i + 8 + j] = static_cast<uint16_t>(hashes[i + j] >> 16);
        }
      }
    }
  };
  struct NoBits {
    GRADAGRAD_INLINE NoBits(uint32_t, uint32_t, int32_t) {}
  };
  using Random = std::conditional_t<std::is_same_v<S, bf16>, Bits, NoBits>;
  static GRADAGRAD_INLINE uint32_t low(const Bits& bits, int32_t i) { return bits.low[i]; }
  static GRADAGRAD_INLINE uint32_t high(const Bits& bits, int32_t i) { return bits.high[i]; }
  static GRADAGRAD_INLINE uint32_t low(const NoBits&, int32_t) { return 0; }
  static GRADAGRAD_INLINE uint32_t high(const NoBits&, int32_t) { return 0; }

  // LATE: the average belongs to an earlier step; `left` of its distance to x remains until now.
  template <bool MEAN, bool LATE>
  static GRADAGRAD_INLINE void move_piece(
      const R& rule, const Work& work, P* __restrict x, const P* __restrict g, S* __restrict h, S* __restrict B,
      S* __restrict mean, int32_t size, uint32_t index, C left) {
    const Random bits(work.key, index, size), mean_bits(work.mean_key, index, MEAN ? size : 0);
    const C rest = C(1) - left;
#pragma GCC ivdep
    for (int32_t i = 0; i < size; ++i) {
      C a = load<C>(x[i]), last = load<C>(h[i]), sum = load<C>(B[i]), average = MEAN ? load<C>(mean[i]) : C(0);
      if (LATE) average = average * left + a * rest;
      rule.move(a, rule.gradient(a, load<C>(g[i])), last, sum);
      store(x[i], a);
      store(h[i], last, low(bits, i));
      store(B[i], sum, high(bits, i));
      if (MEAN) store(mean[i], rule.average(a, average), low(mean_bits, i));
    }
  }

  template <bool MEAN>
  static GRADAGRAD_INLINE void move_all(const Work& work, const Numbers& numbers, int64_t begin, int64_t end) {
    const R rule(numbers);
    P* x = static_cast<P*>(work.x);
    const P* g = static_cast<const P*>(work.g);
    S* h = static_cast<S*>(work.h);
    S* B = static_cast<S*>(work.B);
    S* mean = static_cast<S*>(work.mean);
    for (int64_t at = begin; at < end; at += piece) {
      const auto size = static_cast<int32_t>(end - at < piece ? end - at : piece);
      fetch(x + at + piece, true);
      fetch(g + at + piece, false);
      fetch(h + at + piece, true);
      fetch(B + at + piece, true);
      if (MEAN) fetch(mean + at + piece, true);
      move_piece<MEAN, false>(
          rule, work, x + at, g + at, h + at, B + at, mean + at, size, static_cast<uint32_t>(at), C(1));
    }
  }

  static GRADAGRAD_INLINE void move(const Work& work, const Numbers& numbers, int64_t begin, int64_t end) {
    if (work.mean) {
      move_all<true>(work, numbers, begin, end);
    } else {
      move_all<false>(work, numbers, begin, end);
    }
  }

  static GRADAGRAD_INLINE void fetch_row(const Work& work, int64_t at, bool write) {
    if (write) {
      __builtin_prefetch(static_cast<P*>(work.x) + at, 1);
      if (work.mean) __builtin_prefetch(static_cast<S*>(work.mean) + at, 1);
    }
    __builtin_prefetch(static_cast<S*>(work.h) + at, 1);
    __builtin_prefetch(static_cast<S*>(work.B) + at, 1);
  }

  // Rows lie anywhere in the table, so the hardware cannot guess the next one.
  static constexpr int64_t ahead = 8;

  // Rows are collected into pieces first, since adding up each short row by itself would take longer than measuring it.
  static GRADAGRAD_INLINE Sums measure_rows(
      const Work& work, const Numbers& numbers, const Touched* touched, int64_t begin, int64_t end) {
    const R rule(numbers);
    const int64_t width = work.row;
    P g[piece];
    S h[piece], B[piece];
    int64_t held = 0;
    Sums sums;
    for (int64_t i = begin; i < end; ++i) {
      if (i + ahead < end) fetch_row(work, touched[i + ahead].row * width, false);
      const P* values = static_cast<const P*>(touched[i].values);
      const S* last = static_cast<const S*>(work.h) + touched[i].row * width;
      const S* sum = static_cast<const S*>(work.B) + touched[i].row * width;
      for (int64_t j = 0; j < width;) {
        const int64_t taken = width - j < piece - held ? width - j : piece - held;
        for (int64_t k = 0; k < taken; ++k) {
          g[held + k] = values[j + k];
          h[held + k] = last[j + k];
          B[held + k] = sum[j + k];
        }
        j += taken;
        held += taken;
        if (held == piece) {
          sums.add(measured<false>(rule, nullptr, g, h, B, held));
          held = 0;
        }
      }
    }
    sums.add(measured<false>(rule, nullptr, g, h, B, held));
    return sums;
  }

  template <bool MEAN>
  static GRADAGRAD_INLINE void move_each_row(
      const Work& work, const Numbers& numbers, const Touched* touched, int64_t begin, int64_t end) {
    const R rule(numbers);
    const int64_t width = work.row;
    const double now = numbers.step < 1.0 ? 1.0 : numbers.step;
    for (int64_t i = begin; i < end; ++i) {
      if (i + ahead < end) fetch_row(work, touched[i + ahead].row * width, true);
      const int64_t at = touched[i].row * width;
      const P* g = static_cast<const P*>(touched[i].values);
      P* x = static_cast<P*>(work.x) + at;
      S* h = static_cast<S*>(work.h) + at;
      S* B = static_cast<S*>(work.B) + at;
      S* mean = MEAN ? static_cast<S*>(work.mean) + at : nullptr;
      C left = C(1);
      if (MEAN) {
        int32_t& clock = work.clocks[touched[i].row];
        if (clock != now) left = static_cast<C>(fade(clock, now));
        clock = static_cast<int32_t>(numbers.step + 1.0);
      }
      for (int64_t j = 0; j < width; j += piece) {
        const auto size = static_cast<int32_t>(width - j < piece ? width - j : piece);
        move_piece<MEAN, MEAN>(
            rule, work, x + j, g + j, h + j, B + j, MEAN ? mean + j : nullptr, size, static_cast<uint32_t>(at + j), left);
      }
    }
  }

  static GRADAGRAD_INLINE void move_rows(
      const Work& work, const Numbers& numbers, const Touched* touched, int64_t begin, int64_t end) {
    if (work.mean) {
      move_each_row<true>(work, numbers, touched, begin, end);
    } else {
      move_each_row<false>(work, numbers, touched, begin, end);
    }
  }
};

}  // namespace gradagrad::shared
