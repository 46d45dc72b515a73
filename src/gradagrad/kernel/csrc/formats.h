// The number formats that tensors may have, and the roundings between them and what is computed with.
#pragma once

#include "arithmetic.h"

namespace gradagrad {

enum class Format : uint8_t { f32, f64, bf16, f16 };

inline int64_t size_of(Format format) { return format == Format::f64 ? 8 : format == Format::f32 ? 4 : 2; }

// The format of T itself, which needs no conversion.
template <class T>
constexpr Format own_format = sizeof(T) == 8 ? Format::f64 : Format::f32;

constexpr float largest_bf16 = 0x1.fep127f;

GRADAGRAD_INLINE float from_bf16(uint16_t a) { return reinterpret<float>(static_cast<uint32_t>(a) << 16); }

// With the bits in place a multiplication moves the exponent, and subnormal numbers need no case of their own.
GRADAGRAD_INLINE float from_f16(uint16_t a) {
  const uint32_t magnitude = (a & 0x7fffu) << 13, sign = (a & 0x8000u) << 16;
  const uint32_t finite = reinterpret<uint32_t>(reinterpret<float>(magnitude) * 0x1p112f);
  const uint32_t special = magnitude | 0x7f800000u;
  return reinterpret<float>(sign | (magnitude < 0x0f800000u ? finite : special));
}

// To nearest, ties to even: what torch does when it stores a parameter of 16 bits.
GRADAGRAD_INLINE uint16_t to_bf16(float a) {
  const uint32_t bits = reinterpret<uint32_t>(a);
  const uint32_t rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
  return static_cast<uint16_t>(a != a ? 0x7fc0u : rounded);
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

// Up with the probability that makes the mean exact, as 16 random bits say. What bf16 holds exactly is kept, infinities too; a
// finite number beyond the largest bf16 becomes that, since inf would never leave. NaN stays one if it is quiet,
// as all are that come out of arithmetic: the uppermost bit of their fraction is set.
GRADAGRAD_INLINE uint16_t to_bf16_stochastic(float a, uint32_t random16) {
  const uint32_t up = std::fabs(a) < largest_bf16 ? random16 : 0u;
  return static_cast<uint16_t>((reinterpret<uint32_t>(a) + up) >> 16);
}
GRADAGRAD_INLINE float quiet(float a) { return a != a ? std::numeric_limits<float>::quiet_NaN() : a; }

// Random bits are a function of (seed, step, parameter, element, word) alone, so they depend neither on the number of
// threads nor on what ran before a checkpoint was loaded. `gradagrad.precision` restates them; change both together.
// Words 2k and 2k + 1 of element n are the low half and the high half of number n + k, which is cheaper than more numbers.
constexpr int point_word = 4;  // gradagrad.rules.rule.PARAMETER_LANE

GRADAGRAD_INLINE uint32_t scramble(uint32_t a) {
  a ^= a >> 16;
  a *= 0x7feb352du;
  a ^= a >> 15;
  a *= 0x846ca68bu;
  a ^= a >> 16;
  return a;
}

inline uint32_t random_key(int64_t seed, int64_t step, int64_t stream) {
  const uint32_t key = scramble(scramble(static_cast<uint32_t>(seed) + 0x9e3779b9u) ^ static_cast<uint32_t>(step));
  return scramble(key ^ static_cast<uint32_t>(stream));
}

// The random numbers of a piece of a parameter.
class RandomBits {
 public:
  static constexpr int64_t most = 512;  // elements
  static constexpr int further = point_word / 2;  // numbers after the last element's that its words may need

  // Numbers n and n + 8 of sixteen share a hash with its halves exchanged: half the hashes, and no two words of an element
  // have bits in common.
  GRADAGRAD_INLINE void draw(uint32_t key, int64_t index, int64_t size) {
    shift_ = index & 15;
    uint32_t place = static_cast<uint32_t>(index >> 4) * 8 * 0x9e3779b9u;
    const int64_t hashes = (shift_ + size + 15) / 16 * 8;
    alignas(64) uint32_t hash[most / 2 + 16];
    for (int64_t i = 0; i < hashes; ++i, place += 0x9e3779b9u) hash[i] = scramble(key ^ place);
    for (int64_t i = 0; i < hashes; i += 8) {
      for (int j = 0; j < 8; ++j) {  // A count that GCC can see, else it may copy number by number.
        const uint32_t own = hash[i + j];
        bits_[2 * i + j] = own;
        bits_[2 * i + j + 8] = (own << 16) | (own >> 16);
      }
    }
  }
  GRADAGRAD_INLINE const uint32_t* bits() const { return bits_ + shift_; }

 private:
  int64_t shift_ = 0;
  alignas(64) uint32_t bits_[most + 32];
};
GRADAGRAD_INLINE uint32_t half_of(uint32_t bits, int word) { return word % 2 ? bits >> 16 : bits & 0xffffu; }

void draw(RandomBits& random, uint32_t key, int64_t index, int64_t size);

// What is done with arrays of T.
template <class T>
struct Arrays {
  // From and to arrays of a format; with bits, bf16 is rounded stochastically, by those of a word.
  static void load(Format format, const void* from, T* to, int64_t size);
  static void store(Format format, void* to, const T* from, int64_t size, const uint32_t* bits = nullptr, int word = 0);
  // The gradient as the rule takes it: negated, or with coupled weight decay. x is not read without decay: 0·inf is NaN.
  static void transform_gradient(T* g, const T* x, bool negated, double decay, int64_t size);
  // The sum of rows of numbers of one format, in the order given and rounded after each, as torch adds up a sparse gradient.
  static void add_up_rows(Format format, const char* values, const int64_t* positions, int64_t count, int64_t width, char* to);
};

}  // namespace gradagrad
