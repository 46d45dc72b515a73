// Loops over streams some of which have 16 bits: blocks of them become floats, go through the rule and are rounded back in
// one loop, so that the processor rounds one block while it waits for the roots and quotients of the next.
#pragma once

#include <utility>

#include "conversions.h"
#include "formats.h"
#include "rules.h"

namespace gradagrad {

using u32x8 = uint32_t __attribute__((vector_size(32)));
using i32x8 = int32_t __attribute__((vector_size(32)));
using f32x8 = float __attribute__((vector_size(32)));
using u16x16 = uint16_t __attribute__((vector_size(32)));

// Vectors are passed by reference: by value the convention would depend on the instruction set.
GRADAGRAD_INLINE void store_upper_halves(uint16_t* to, const u32x8& a, const u32x8& b) {
  const u16x16 both = __builtin_shufflevector(
      reinterpret_cast<const u16x16&>(a), reinterpret_cast<const u16x16&>(b), 1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25,
      27, 29, 31);
  std::memcpy(to, &both, sizeof(both));
}

// `to_bf16_stochastic` of eight numbers, up to the last shift.
GRADAGRAD_INLINE void round_eight(u32x8& bits, const float* from, const u32x8& random) {
  f32x8 number, magnitude;
  std::memcpy(&bits, from, sizeof(bits));
  std::memcpy(&number, from, sizeof(bits));
  const u32x8 without_sign = bits & 0x7fffffffu;
  std::memcpy(&magnitude, &without_sign, sizeof(bits));
  const i32x8 finite = magnitude < largest_bf16, nan = number != number;
  bits = finite ? bits + random : bits;
  bits = nan ? bits | 0x400000u : bits;
}

// Sixteen numbers share eight hashes; the odd lane of a pair has the halves exchanged.
GRADAGRAD_INLINE void round_sixteen(uint16_t* to, const float* from, const u32x8& hashes, bool odd) {
  const u32x8 low = hashes & 0xffffu, high = hashes >> 16;
  u32x8 a, b;
  round_eight(a, from, odd ? high : low);
  round_eight(b, from + 8, odd ? low : high);
  store_upper_halves(to, a, b);
}

template <class Function>
struct Staged {
  static constexpr int64_t block = staged_block;
  static constexpr uint32_t streams = (Function::reads | Function::writes) & ((1u << stream::stored) - 1);
  static constexpr auto numbers = std::make_integer_sequence<int, stream::stored>();

  struct Buffers {
    alignas(64) float values[stream::stored][block];
    u32x8 hashes[lane_pairs][block / 16];
    float* at[stream::count];
  };

  template <int S>
  static GRADAGRAD_INLINE void load(const StagedArguments& given, Buffers& buffers, int64_t i) {
    if constexpr ((streams >> S) & 1) {
      const auto* from = reinterpret_cast<const uint16_t*>(given.data[S]) + i;
      float* to = buffers.at[S] = buffers.values[S];
      if (given.formats[S] == Format::f32) {
        buffers.at[S] = reinterpret_cast<float*>(given.data[S]) + i;
      } else if (!((Function::reads >> S) & 1)) {
        return;
      } else if (given.formats[S] == Format::bf16) {
        GRADAGRAD_VECTORS
        for (int64_t j = 0; j < block; ++j) to[j] = from_bf16(from[j]);
      } else {
        GRADAGRAD_VECTORS
        for (int64_t j = 0; j < block; ++j) to[j] = from_f16(from[j]);
      }
    }
  }

  template <int S>
  static GRADAGRAD_INLINE void store(const StagedArguments& given, Buffers& buffers, int64_t i) {
    if constexpr ((Function::writes & streams) >> S & 1) {
      auto* to = reinterpret_cast<uint16_t*>(given.data[S]) + i;
      const float* from = buffers.values[S];
      const int lane = given.lanes[S];
      if (given.formats[S] == Format::f32) return;
      if (lane >= 0) {
        for (int64_t j = 0; j < block; j += 16) {
          if (lane % 2) {
            round_sixteen(to + j, from + j, buffers.hashes[lane / 2][j / 16], true);
          } else {
            round_sixteen(to + j, from + j, buffers.hashes[lane / 2][j / 16], false);
          }
        }
      } else if (given.formats[S] == Format::bf16) {
        GRADAGRAD_VECTORS
        for (int64_t j = 0; j < block; ++j) to[j] = to_bf16(from[j]);
      } else {
        GRADAGRAD_VECTORS
        for (int64_t j = 0; j < block; ++j) to[j] = to_f16(from[j]);
      }
    }
  }

  static GRADAGRAD_INLINE void hash(const StagedArguments& given, Buffers& buffers, uint32_t element) {
    for (int pair = 0; pair < lane_pairs; ++pair) {
      if (!(given.pairs >> pair & 1)) continue;
      for (uint32_t j = 0; j < block / 16; ++j) {
        u32x8 a = {0, 1, 2, 3, 4, 5, 6, 7};
        a = given.keys[pair] ^ ((a + pair_of(element + 16 * j)) * 0x9e3779b9u);
        a ^= a >> 16;
        a *= 0x7feb352du;
        a ^= a >> 15;
        a *= 0x846ca68bu;
        buffers.hashes[pair][j] = a ^ (a >> 16);
      }
    }
  }

  template <int... S>
  static GRADAGRAD_INLINE void blocks(const StagedArguments& given, std::integer_sequence<int, S...>) {
    const typename Function::template Body<float> body(given.settings, given.pace);
    Buffers buffers;
    for (int64_t i = given.begin; i < given.end; i += block) {
      (load<S>(given, buffers, i), ...);
      hash(given, buffers, static_cast<uint32_t>(i));
      body.loop(buffers.at, block, given.totals);
      (store<S>(given, buffers, i), ...);
    }
  }

  GRADAGRAD_CLONES static void run(const StagedArguments& given) { blocks(given, numbers); }
};

}  // namespace gradagrad
