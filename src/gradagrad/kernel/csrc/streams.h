// The generated loops over streams as they are stored. Conversions and roundings are part of the loop, so that the processor
// does them while it waits for roots and quotients.
#pragma once

#include <algorithm>
#include <utility>

#include "rules.h"

namespace gradagrad {

struct None;  // in place of a phase that a rule does not need

// What is added up must stay finite: products of doubles stop at the largest, those of floats are far from it.
template <class P>
GRADAGRAD_INLINE double bounded(double a) {
  constexpr double largest = std::numeric_limits<double>::max();
  return sizeof(P) < sizeof(double) ? a : at_least(at_most(a, largest), -largest);
}

// Point and gradient have the format X, fields S; both are T or uint16_t, which is bf16. What the generated loops call.
template <class T, class X, class S, bool RANDOM>
struct Streams {
  template <int N>
  using Stored = std::conditional_t<(N < stream::elements), X, std::conditional_t<(N < stream::stored), S, T>>;

  char* at[stream::count];
  const uint32_t* bits;  // random numbers, those of an element and of the next

  template <int N>
  GRADAGRAD_INLINE Stored<N>& stored(int64_t i) const {
    return reinterpret_cast<Stored<N>*>(at[N])[i];
  }
  template <int N>
  GRADAGRAD_INLINE T read(int64_t i) const {
    if constexpr (std::is_same_v<Stored<N>, T>) return stored<N>(i);
    else return from_bf16(stored<N>(i));
  }
  template <int N, int WORD>
  GRADAGRAD_INLINE void write(int64_t i, T a) const {
    if constexpr (std::is_same_v<Stored<N>, T>) stored<N>(i) = a;
    else if constexpr (N == stream::x && !RANDOM) stored<N>(i) = to_bf16(a);
    else stored<N>(i) = to_bf16_stochastic(a, half_of(bits[i + WORD / 2], WORD));
  }
  template <int N, int WORD, int FROM>
  GRADAGRAD_INLINE void copy(int64_t i) const {
    if constexpr (std::is_same_v<Stored<N>, Stored<FROM>>) stored<N>(i) = stored<FROM>(i);
    else if constexpr (std::is_same_v<Stored<N>, T>) stored<N>(i) = read<FROM>(i);
    else write<N, WORD>(i, quiet(read<FROM>(i)));
  }
};

template <class Function, class T, class X, class S, bool RANDOM>
struct Over {
  using Here = Streams<T, X, S, RANDOM>;
  static constexpr uint64_t streams = Function::reads | Function::writes;
  static constexpr bool rounds = sizeof(S) == 2, rounds_point = RANDOM && (Function::writes & 1);
  static constexpr uint64_t words = (rounds ? Function::words : 0) | (rounds_point ? 1u << point_word : 0);
  static constexpr int64_t ahead = 32;  // rows lie anywhere in a table, so the hardware cannot guess the next one

  template <int N>
  static GRADAGRAD_INLINE void point(const Arguments<T>& given, int64_t r, Here& here) {
    if constexpr (streams >> N & 1) {
      using A = typename Here::template Stored<N>;
      const Range& range = given.ranges[r];
      const bool apart = N == stream::g && range.gradient;
      here.at[N] = apart ? const_cast<char*>(range.gradient) : given.data[N] + range.begin * int64_t{sizeof(A)};
      if (!apart && r + ahead < given.count) {
        __builtin_prefetch(given.data[N] + given.ranges[r + ahead].begin * int64_t{sizeof(A)}, 1);
      }
    }
  }
  template <int N>
  static GRADAGRAD_INLINE void advance(Here& here, int64_t size) {
    if constexpr (streams >> N & 1) here.at[N] += size * int64_t{sizeof(typename Here::template Stored<N>)};
  }
  // Adding up inside the loop would tie it to GCC's 16 lanes of `omp simd`, too few for vectors of 16 bits.
  static GRADAGRAD_INLINE double sum(const T* a, int64_t size) {
    double total = 0.0;
#pragma omp simd reduction(+ : total)
    for (int64_t i = 0; i < size; ++i) total += a[i];
    if (std::isfinite(total)) return total;
    total = 0.0;  // What is not finite is left out.
#pragma omp simd reduction(+ : total)
    for (int64_t i = 0; i < size; ++i) total += select(a[i] * T(0) == T(0), a[i], T(0));
    return total;
  }

  template <int... N>
  static GRADAGRAD_INLINE void ranges(const Arguments<T>& given, std::integer_sequence<int, N...>) {
    const typename Function::template Body<T> body(given.settings, given.factors);
    for (int64_t r = 0; r < given.count; ++r) {
      Here here;
      (point<N>(given, r, here), ...);
      if constexpr (words == 0 && !Function::statistics) {
        body.loop(here, given.size, given.totals);
      } else {
        RandomBits random;
        constexpr int64_t apart = RandomBits::most * int64_t{sizeof(T)} + 64;
        constexpr uint64_t page = 4096;
        alignas(64) char space[Function::statistics * apart + page];
        for (int64_t i = 0; i < given.size; i += RandomBits::most) {
          const int64_t size = std::min(RandomBits::most, given.size - i);
          if constexpr (words != 0) {
            random.draw(given.key, given.ranges[r].begin + i, size + (words >> 2 ? RandomBits::further : 0));
            here.bits = random.bits();
          }
          // A store holds up loads from the same place of any page, so these are a quarter of a page ahead of x.
          const auto offset = reinterpret_cast<uintptr_t>(here.at[0]) - reinterpret_cast<uintptr_t>(space) + page / 4;
          for (int k = 0; k < Function::statistics; ++k) here.at[stream::statistics + k] = space + offset % page / 64 * 64 + k * apart;
          body.loop(here, size, given.totals);
          for (int k = 0; k < Function::statistics; ++k) given.totals[k] += sum(reinterpret_cast<T*>(here.at[stream::statistics + k]), size);
          (advance<N>(here, size), ...);
        }
      }
    }
  }
  GRADAGRAD_CLONES static void run(const Arguments<T>& given) {
    ranges(given, std::make_integer_sequence<int, stream::count>());
  }
};

}  // namespace gradagrad
