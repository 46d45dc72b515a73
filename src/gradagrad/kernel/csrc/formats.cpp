#include "formats.h"

namespace gradagrad {

namespace {

// F converts one number.
template <auto F, class From, class To>
struct Convert {
  GRADAGRAD_CLONES static void all(const From* __restrict from, To* __restrict to, int64_t size) {
    GRADAGRAD_VECTORS
    for (int64_t i = 0; i < size; ++i) to[i] = F(from[i]);
  }
};

template <class T>
struct Vectors {
  GRADAGRAD_CLONES static void stochastic(
      uint16_t* __restrict to, const T* __restrict from, int64_t size, const uint32_t* __restrict bits, int word) {
    GRADAGRAD_VECTORS
    for (int64_t i = 0; i < size; ++i) to[i] = to_bf16_stochastic(to_float(from[i]), half_of(bits[i], word));
  }
  GRADAGRAD_CLONES static void transform(T* __restrict g, const T* __restrict x, T sign, int64_t size, T decay) {
    GRADAGRAD_VECTORS
    for (int64_t i = 0; i < size; ++i) g[i] = g[i] * sign + x[i] * decay;
  }
};

}  // namespace

template <class T>
void Arrays<T>::load(Format format, const void* from, T* to, int64_t size) {
  if (format == own_format<T>) {
    std::memcpy(to, from, static_cast<size_t>(size) * sizeof(T));
  } else if (format == Format::bf16) {
    Convert<from_bf16, uint16_t, T>::all(static_cast<const uint16_t*>(from), to, size);
  } else {
    Convert<from_f16, uint16_t, T>::all(static_cast<const uint16_t*>(from), to, size);
  }
}

template <class T>
void Arrays<T>::store(Format format, void* to, const T* from, int64_t size, const uint32_t* bits, int word) {
  if (format == own_format<T>) {
    std::memcpy(to, from, static_cast<size_t>(size) * sizeof(T));
  } else if (format == Format::f16) {
    Convert<to_f16, T, uint16_t>::all(from, static_cast<uint16_t*>(to), size);
  } else if (bits) {
    Vectors<T>::stochastic(static_cast<uint16_t*>(to), from, size, bits, word);
  } else {
    Convert<to_bf16, T, uint16_t>::all(from, static_cast<uint16_t*>(to), size);
  }
}

GRADAGRAD_CLONES void draw(RandomBits& random, uint32_t key, int64_t index, int64_t size) { random.draw(key, index, size); }

template <class T>
void Arrays<T>::transform_gradient(T* g, const T* x, bool negated, double decay, int64_t size) {
  if (decay != 0.0) {
    Vectors<T>::transform(g, x, negated ? T(-1) : T(1), size, static_cast<T>(decay));
  } else if (negated) {
    for (int64_t i = 0; i < size; ++i) g[i] = -g[i];
  }
}

template <class T>
void Arrays<T>::add_up_rows(Format format, const char* values, const int64_t* positions, int64_t count, int64_t width, char* to) {
  const int64_t bytes = size_of(format);
  constexpr int64_t piece = 256;
  T sum[piece], next[piece];
  for (int64_t j = 0; j < width; j += piece) {
    const int64_t size = width - j < piece ? width - j : piece;
    std::memcpy(to + j * bytes, values + (positions[0] * width + j) * bytes, static_cast<size_t>(size * bytes));
    for (int64_t i = 1; i < count; ++i) {
      load(format, to + j * bytes, sum, size);
      load(format, values + (positions[i] * width + j) * bytes, next, size);
      for (int64_t k = 0; k < size; ++k) sum[k] += next[k];
      store(format, to + j * bytes, sum, size);
    }
  }
}

template struct Arrays<float>;
template struct Arrays<double>;

}  // namespace gradagrad
