// Eight floats side by side, for `Rule<Lanes, ...>`. Only for sources compiled for AVX2: see avx2.h.
#pragma once

#include <immintrin.h>

#include "numbers.h"

namespace gradagrad {

struct Lanes {
  __m256 all;
  Lanes() = default;
  GRADAGRAD_INLINE Lanes(__m256 a) : all(a) {}
  GRADAGRAD_INLINE explicit Lanes(float a) : all(_mm256_set1_ps(a)) {}
};

template <>
struct ScalarType<Lanes> {
  using type = float;
};

GRADAGRAD_INLINE Lanes operator+(Lanes a, Lanes b) { return _mm256_add_ps(a.all, b.all); }
GRADAGRAD_INLINE Lanes operator-(Lanes a, Lanes b) { return _mm256_sub_ps(a.all, b.all); }
GRADAGRAD_INLINE Lanes operator*(Lanes a, Lanes b) { return _mm256_mul_ps(a.all, b.all); }
GRADAGRAD_INLINE Lanes operator/(Lanes a, Lanes b) { return _mm256_div_ps(a.all, b.all); }
GRADAGRAD_INLINE Lanes operator-(Lanes a) { return _mm256_xor_ps(a.all, _mm256_set1_ps(-0.0f)); }
// Comparisons give masks: all bits of a lane, or none.
GRADAGRAD_INLINE Lanes operator<(Lanes a, Lanes b) { return _mm256_cmp_ps(a.all, b.all, _CMP_LT_OQ); }
GRADAGRAD_INLINE Lanes operator>=(Lanes a, Lanes b) { return _mm256_cmp_ps(a.all, b.all, _CMP_GE_OQ); }
GRADAGRAD_INLINE Lanes operator|(Lanes a, Lanes b) { return _mm256_or_ps(a.all, b.all); }
GRADAGRAD_INLINE Lanes operator&(Lanes a, Lanes b) { return _mm256_and_ps(a.all, b.all); }
GRADAGRAD_INLINE Lanes select(Lanes mask, Lanes a, Lanes b) { return _mm256_blendv_ps(b.all, a.all, mask.all); }
GRADAGRAD_INLINE bool everywhere(Lanes mask) { return _mm256_movemask_ps(mask.all) == 0xff; }
GRADAGRAD_INLINE Lanes root(Lanes a) { return _mm256_sqrt_ps(a.all); }
// max and min give their second operand if one is NaN.
GRADAGRAD_INLINE Lanes at_least(Lanes a, Lanes constant) { return _mm256_max_ps(constant.all, a.all); }
GRADAGRAD_INLINE Lanes at_most(Lanes a, Lanes constant) { return _mm256_min_ps(constant.all, a.all); }
GRADAGRAD_INLINE Lanes minimum(Lanes a, Lanes b) {
  return select(_mm256_cmp_ps(a.all, a.all, _CMP_UNORD_Q), a, _mm256_min_ps(a.all, b.all));
}

GRADAGRAD_INLINE Lanes load8(const float* from) { return _mm256_loadu_ps(from); }
GRADAGRAD_INLINE Lanes load8(const bf16* from) {
  const __m256i wide = _mm256_cvtepu16_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from)));
  return _mm256_castsi256_ps(_mm256_slli_epi32(wide, 16));
}

GRADAGRAD_INLINE void store8(float* to, Lanes a) { _mm256_storeu_ps(to, a.all); }

// The upper halves of sixteen words.
GRADAGRAD_INLINE void store_upper(bf16* to, __m256i a, __m256i b) {
  const __m256i packed = _mm256_packus_epi32(_mm256_srli_epi32(a, 16), _mm256_srli_epi32(b, 16));
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), _mm256_permute4x64_epi64(packed, 0xd8));
}

GRADAGRAD_INLINE void store16(float* to, Lanes a, Lanes b) {
  _mm256_storeu_ps(to, a.all);
  _mm256_storeu_ps(to + 8, b.all);
}
GRADAGRAD_INLINE __m256i to_nearest(Lanes a) {
  const __m256i bits = _mm256_castps_si256(a.all);
  const __m256i odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
  const __m256i rounded = _mm256_add_epi32(_mm256_add_epi32(bits, _mm256_set1_epi32(0x7fff)), odd);
  const __m256 nan = _mm256_cmp_ps(a.all, a.all, _CMP_UNORD_Q);
  return _mm256_blendv_epi8(rounded, _mm256_set1_epi32(0x7fc00000), _mm256_castps_si256(nan));
}
GRADAGRAD_INLINE void store16(bf16* to, Lanes a, Lanes b) { store_upper(to, to_nearest(a), to_nearest(b)); }

// The random bits of sixteen elements, and the stochastic rounding of `store` in numbers.h.
struct Randoms {
  __m256i hash;
  GRADAGRAD_INLINE __m256i low() const { return _mm256_and_si256(hash, _mm256_set1_epi32(0xffff)); }
  GRADAGRAD_INLINE __m256i high() const { return _mm256_srli_epi32(hash, 16); }
};
GRADAGRAD_INLINE __m256i mixed(__m256i a, int shift) { return _mm256_xor_si256(a, _mm256_srli_epi32(a, shift)); }
// The hashes of sixteen elements at a time, from a number divisible by sixteen onwards.
struct Weyl {
  __m256i product, key;
  GRADAGRAD_INLINE Weyl(uint32_t key, uint32_t element) : key(_mm256_set1_epi32(static_cast<int32_t>(key))) {
    const __m256i pairs = _mm256_add_epi32(
        _mm256_set1_epi32(static_cast<int32_t>(random_pair(element))), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
    product = _mm256_mullo_epi32(pairs, _mm256_set1_epi32(static_cast<int32_t>(0x9e3779b9u)));
  }
  GRADAGRAD_INLINE __m256i next() {
    __m256i a = mixed(_mm256_xor_si256(product, key), 16);
    product = _mm256_add_epi32(product, _mm256_set1_epi32(static_cast<int32_t>(8u * 0x9e3779b9u)));
    a = mixed(_mm256_mullo_epi32(a, _mm256_set1_epi32(0x7feb352d)), 15);
    return mixed(_mm256_mullo_epi32(a, _mm256_set1_epi32(static_cast<int32_t>(0x846ca68bu))), 16);
  }
};
GRADAGRAD_INLINE __m256i raised(Lanes a, __m256i random16, Lanes magnitude, Lanes largest) {
  const __m256i up = _mm256_and_si256(_mm256_castps_si256((magnitude < largest).all), random16);
  return _mm256_add_epi32(_mm256_castps_si256(a.all), up);
}
GRADAGRAD_INLINE Lanes magnitude(Lanes a) { return _mm256_andnot_ps(_mm256_set1_ps(-0.0f), a.all); }
GRADAGRAD_INLINE void store_momentum16(bf16* to, Lanes a, Lanes b, __m256i hash) {
  const Randoms random{hash};
  const Lanes largest(bf16::largest);
  store_upper(
      to, raised(a, random.low(), magnitude(a), largest), raised(b, random.high(), magnitude(b), largest));
}
// Of what is never negative; a NaN may be, and is not below the largest.
GRADAGRAD_INLINE void store_slot16(bf16* to, Lanes a, Lanes b, __m256i hash) {
  const Randoms random{hash};
  const Lanes largest(bf16::largest);
  store_upper(to, raised(a, random.high(), a, largest), raised(b, random.low(), b, largest));
}

}  // namespace gradagrad
