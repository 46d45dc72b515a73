// The number formats of the kernel: bf16, its two roundings, and comparisons that let a NaN through as torch's do.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>

// One build serves every x86-64 machine: the loops exist once per instruction set and the loader picks. Inlined helpers
// take the instruction set of the loop they are inlined into, so only the outermost functions carry the attribute.
#if defined(__x86_64__) && defined(__gnu_linux__) && !defined(GRADAGRAD_NO_CLONES)
#define GRADAGRAD_CLONES __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define GRADAGRAD_CLONES
#endif
#define GRADAGRAD_INLINE inline __attribute__((always_inline))

namespace gradagrad {

struct bf16 {
  static constexpr float largest = 0x1.fep127f;
  uint16_t bits;
};

struct f16 {
  uint16_t bits;
};

template <class To, class From>
GRADAGRAD_INLINE To reinterpret(From from) {
  static_assert(sizeof(To) == sizeof(From));
  To to;
  std::memcpy(&to, &from, sizeof(to));
  return to;
}

// The precision a parameter (P) with this state (S) is updated in.
template <class P, class S>
struct ComputingType {
  using type = float;
};
template <class P>
struct ComputingType<P, double> {
  using type = double;
};
template <class S>
struct ComputingType<double, S> {
  using type = double;
};
template <>
struct ComputingType<double, double> {
  using type = double;
};
template <class P, class S>
using computing_t = typename ComputingType<P, S>::type;

template <class C>
GRADAGRAD_INLINE C load(float a) {
  return static_cast<C>(a);
}
template <class C>
GRADAGRAD_INLINE C load(double a) {
  return static_cast<C>(a);
}
template <class C>
GRADAGRAD_INLINE C load(bf16 a) {
  return static_cast<C>(reinterpret<float>(static_cast<uint32_t>(a.bits) << 16));
}

// With the bits in place a multiplication moves the exponent, and subnormal numbers need no case of their own.
template <class C>
GRADAGRAD_INLINE C load(f16 a) {
  const uint32_t magnitude = (a.bits & 0x7fffu) << 13, sign = (a.bits & 0x8000u) << 16;
  const uint32_t finite = reinterpret<uint32_t>(reinterpret<float>(magnitude) * 0x1p112f);
  const uint32_t special = magnitude | 0x7f800000u;
  return static_cast<C>(reinterpret<float>(sign | (magnitude < 0x0f800000u ? finite : special)));
}

// To nearest, ties to even: what torch does when it stores a parameter of 16 bits.
template <class C>
GRADAGRAD_INLINE void store(float& to, C a) {
  to = static_cast<float>(a);
}
template <class C>
GRADAGRAD_INLINE void store(double& to, C a) {
  to = static_cast<double>(a);
}
template <class C>
GRADAGRAD_INLINE void store(bf16& to, C a) {
  const uint32_t bits = reinterpret<uint32_t>(static_cast<float>(a));
  const uint32_t rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
  to.bits = static_cast<uint16_t>((bits & 0x7fffffffu) > 0x7f800000u ? 0x7fc0u : rounded);
}

template <class C>
GRADAGRAD_INLINE void store(f16& to, C a) {
  const uint32_t bits = reinterpret<uint32_t>(static_cast<float>(a)), magnitude = bits & 0x7fffffffu;
  const uint32_t normal = (magnitude + 0x0fffu + ((magnitude >> 13) & 1u) - 0x38000000u) >> 13;
  const uint32_t subnormal = reinterpret<uint32_t>(reinterpret<float>(magnitude) + 0.5f) - 0x3f000000u;
  const uint32_t special = magnitude > 0x7f800000u ? 0x7e00u : 0x7c00u;
  const uint32_t finite = magnitude < 0x38800000u ? subnormal : normal;
  to.bits = static_cast<uint16_t>(((bits >> 16) & 0x8000u) | (magnitude < 0x477ff000u ? finite : special));
}

// Stochastic: up with the probability that makes the mean exact, decided by 16 random bits. A value that bf16 holds
// exactly is kept, infinities too; a finite one beyond the largest bf16 is clipped to it, since inf would never leave.
template <class C>
GRADAGRAD_INLINE void store(float& to, C a, uint32_t) {
  to = static_cast<float>(a);
}
template <class C>
GRADAGRAD_INLINE void store(double& to, C a, uint32_t) {
  to = static_cast<double>(a);
}
template <class C>
GRADAGRAD_INLINE void store(bf16& to, C a, uint32_t random16) {
  const float value = static_cast<float>(a);
  const uint32_t up = (std::fabs(value) < bf16::largest ? ~0u : 0u) & random16;
  to.bits = static_cast<uint16_t>((reinterpret<uint32_t>(value) + up) >> 16);
}

// Random bits are a function of (seed, step, tensor, element) alone, so they depend neither on the number of threads nor
// on what ran before a checkpoint was loaded. `gradagrad.rounding` restates both functions; change them together.
GRADAGRAD_INLINE uint32_t scramble(uint32_t a) {
  a ^= a >> 16;
  a *= 0x7feb352du;
  a ^= a >> 15;
  a *= 0x846ca68bu;
  a ^= a >> 16;
  return a;
}

GRADAGRAD_INLINE uint32_t random_key(uint32_t seed, uint32_t step, uint32_t stream) {
  return scramble(scramble(scramble(seed + 0x9e3779b9u) ^ step) ^ stream);
}

// Low half for the momentum, high half for growth and accumulator: at most one of those two changes in a step, and an
// unchanged value is kept whatever its bits. Elements n and n + 8 of sixteen share a hash with its halves exchanged, so that
// no two numbers of an element have bits in common, and a vector of eight hashes does for sixteen elements.
GRADAGRAD_INLINE uint32_t random_hash(uint32_t key, uint32_t pair) { return scramble(key ^ (pair * 0x9e3779b9u)); }
GRADAGRAD_INLINE uint32_t random_pair(uint32_t element) {
  return ((element >> 4) << 3) | (element & 7u);
}
GRADAGRAD_INLINE uint32_t random_bits(uint32_t key, uint32_t element) {
  const uint32_t hash = random_hash(key, random_pair(element));
  const uint32_t exchanged = (hash << 16) | (hash >> 16);
  return (element & 8u) ? exchanged : hash;
}

// a where the mask is all ones, b where it is zero. For choices that are the same for all elements: written with a bool, the
// compiler moves the computation of a into a branch and then gives up on vectors.
template <class C>
struct MaskType {
  using type = uint32_t;
};
template <>
struct MaskType<double> {
  using type = uint64_t;
};
template <class C>
using mask_t = typename MaskType<C>::type;

template <class C>
GRADAGRAD_INLINE mask_t<C> mask_of(bool condition) {
  return condition ? ~mask_t<C>(0) : mask_t<C>(0);
}
template <class C>
GRADAGRAD_INLINE C choose(mask_t<C> mask, C a, C b) {
  return reinterpret<C>(
      static_cast<mask_t<C>>((reinterpret<mask_t<C>>(a) & mask) | (reinterpret<mask_t<C>>(b) & ~mask)));
}

template <class C>
GRADAGRAD_INLINE C select(bool condition, C a, C b) {
  return condition ? a : b;
}

template <class C>
struct ScalarType {
  using type = C;
};
template <class C>
using scalar_t = typename ScalarType<C>::type;

GRADAGRAD_INLINE float root(float a) { return std::sqrt(a); }
GRADAGRAD_INLINE double root(double a) { return std::sqrt(a); }

// torch.maximum and torch.minimum return NaN if either side is one. Where the second is a constant, one instruction does.
template <class C>
GRADAGRAD_INLINE C at_least(C a, C constant) {
  return constant > a ? constant : a;
}
template <class C>
GRADAGRAD_INLINE C at_most(C a, C constant) {
  return constant < a ? constant : a;
}
template <class C>
GRADAGRAD_INLINE C minimum(C a, C b) {
  const C smaller = a < b ? a : b;
  return a != a ? a : smaller;
}
template <class C>
GRADAGRAD_INLINE C maximum(C a, C b) {
  const C larger = a > b ? a : b;
  return a != a ? a : larger;
}

}  // namespace gradagrad
