// Conversions of single numbers, and the random bits that round them.
#pragma once

#include "arithmetic.h"

namespace gradagrad {

constexpr float largest_bf16 = 0x1.fep127f;

GRADAGRAD_INLINE float from_bf16(uint16_t a) { return reinterpret<float>(static_cast<uint32_t>(a) << 16); }

// With the bits in place a multiplication moves the exponent, and subnormal numbers need no case of their own.
GRADAGRAD_INLINE float from_f16(uint16_t a) {
  const uint32_t magnitude = (a & 0x7fffu) << 13, sign = (a & 0x8000u) << 16;
  const uint32_t finite = reinterpret<uint32_t>(reinterpret<float>(magnitude) * 0x1p112f);
  const uint32_t special = magnitude | 0x7f800000u;
  return reinterpret<float>(sign | (magnitude < 0x0f800000u ? finite : special));
}

GRADAGRAD_INLINE uint16_t to_bf16(float a) {
  const uint32_t bits = reinterpret<uint32_t>(a);
  const uint32_t rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
  return static_cast<uint16_t>((bits & 0x7fffffffu) > 0x7f800000u ? 0x7fc0u : rounded);
}

GRADAGRAD_INLINE uint16_t to_f16(float a) {
  const uint32_t bits = reinterpret<uint32_t>(a), magnitude = bits & 0x7fffffffu;
  const uint32_t normal = (magnitude + 0x0fffu + ((magnitude >> 13) & 1u) - 0x38000000u) >> 13;
  const uint32_t subnormal = reinterpret<uint32_t>(reinterpret<float>(magnitude) + 0.5f) - 0x3f000000u;
  const uint32_t special = magnitude > 0x7f800000u ? 0x7e00u : 0x7c00u;
  const uint32_t finite = magnitude < 0x38800000u ? subnormal : normal;
  return static_cast<uint16_t>(((bits >> 16) & 0x8000u) | (magnitude < 0x477ff000u ? finite : special));
}

// A double may be finite and yet beyond float; it is cut off before it becomes one.
GRADAGRAD_INLINE float to_float(float a) { return a; }
GRADAGRAD_INLINE float to_float(double a) {
  const double cut = at_most<double>(at_least<double>(a, -largest_bf16), largest_bf16);
  return static_cast<float>(std::fabs(a) > std::numeric_limits<double>::max() ? a : cut);
}

GRADAGRAD_INLINE uint16_t to_bf16_stochastic(float a, uint32_t random16) {
  const uint32_t bits = reinterpret<uint32_t>(a), magnitude = bits & 0x7fffffffu;
  const uint32_t up = magnitude < 0x7f7f0000u ? random16 : 0u;
  const uint32_t rounded = (bits + up) >> 16, nan = ((bits >> 16) & 0x8000u) | 0x7fc0u;
  return static_cast<uint16_t>(magnitude > 0x7f800000u ? nan : rounded);
}

GRADAGRAD_INLINE uint32_t scramble(uint32_t a) {
  a ^= a >> 16;
  a *= 0x7feb352du;
  a ^= a >> 15;
  a *= 0x846ca68bu;
  a ^= a >> 16;
  return a;
}

// Elements n and n + 8 of sixteen share a hash with its halves exchanged: half the hashes, and no two numbers of an element
// have bits in common.
GRADAGRAD_INLINE uint32_t hash_of(uint32_t key, uint32_t pair) { return scramble(key ^ (pair * 0x9e3779b9u)); }
GRADAGRAD_INLINE uint32_t pair_of(uint32_t element) { return ((element >> 4) << 3) | (element & 7u); }

}  // namespace gradagrad
