// The number formats that tensors may have, and the roundings between them and what is computed with.
#pragma once

#include "arithmetic.h"

namespace gradagrad {

enum class Format : uint8_t { f32, f64, bf16, f16 };

inline int64_t size_of(Format format) { return format == Format::f64 ? 8 : format == Format::f32 ? 4 : 2; }

// The format of T itself, which needs no conversion.
template <class T>
constexpr Format own_format = sizeof(T) == 8 ? Format::f64 : Format::f32;

template <class T>
void load(Format format, const void* from, T* to, int64_t size);
// To nearest, ties to even: what torch does when it stores a parameter of 16 bits.
template <class T>
void store(Format format, void* to, const T* from, int64_t size);
// To bf16, up with the probability that makes the mean exact, as 16 random bits say. What bf16 holds exactly is kept,
// infinities and NaN too; a finite number beyond the largest bf16 becomes that, since inf would never leave.
template <class T>
void store_stochastic(void* to, const T* from, int64_t size, const uint16_t* random);

// Random bits are a function of (seed, step, parameter, lane, element) alone, so they depend neither on the number of
// threads nor on what ran before a checkpoint was loaded. `gradagrad.rounding` restates them; change both together.
uint32_t random_key(int64_t seed, int64_t step, int64_t stream, int lane);
constexpr int lane_pairs = 3;  // an even lane and the next share a hash, the low half and the high half of it
// Both halves for elements `index` onwards of a parameter.
void random_halves(uint32_t key, int64_t index, int64_t size, uint16_t* low, uint16_t* high);

// The gradient as the rule takes it: negated, or with coupled weight decay. x is not read without decay: 0·inf is NaN.
template <class T>
void transform_gradient(T* g, const T* x, bool negated, double decay, int64_t size);
// The sum of rows of numbers of one format, in the order given and rounded after each, as torch adds up a sparse gradient.
void add_up_rows(Format format, const char* values, const int64_t* positions, int64_t count, int64_t width, char* to);

}  // namespace gradagrad
