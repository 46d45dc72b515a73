#include "formats.h"

#include "conversions.h"

namespace gradagrad {

namespace {

template <class T>
struct Convert {
  GRADAGRAD_CLONES static void bf16_in(const uint16_t* __restrict from, T* __restrict to, int64_t size) {
    GRADAGRAD_VECTORS
    for (int64_t i = 0; i < size; ++i) to[i] = from_bf16(from[i]);
  }
  GRADAGRAD_CLONES static void f16_in(const uint16_t* __restrict from, T* __restrict to, int64_t size) {
    GRADAGRAD_VECTORS
    for (int64_t i = 0; i < size; ++i) to[i] = from_f16(from[i]);
  }
  GRADAGRAD_CLONES static void bf16_out(uint16_t* __restrict to, const T* __restrict from, int64_t size) {
    GRADAGRAD_VECTORS
    for (int64_t i = 0; i < size; ++i) to[i] = to_bf16(static_cast<float>(from[i]));
  }
  GRADAGRAD_CLONES static void f16_out(uint16_t* __restrict to, const T* __restrict from, int64_t size) {
    GRADAGRAD_VECTORS
    for (int64_t i = 0; i < size; ++i) to[i] = to_f16(static_cast<float>(from[i]));
  }
  GRADAGRAD_CLONES static void stochastic(
      uint16_t* __restrict to, const T* __restrict from, int64_t size, const uint16_t* __restrict random) {
    GRADAGRAD_VECTORS
    for (int64_t i = 0; i < size; ++i) to[i] = to_bf16_stochastic(to_float(from[i]), random[i]);
  }
  GRADAGRAD_CLONES static void transform(T* __restrict g, const T* __restrict x, T sign, int64_t size, T decay) {
    GRADAGRAD_VECTORS
    for (int64_t i = 0; i < size; ++i) g[i] = g[i] * sign + x[i] * decay;
  }
  GRADAGRAD_CLONES static void negate(T* g, int64_t size) {
    GRADAGRAD_VECTORS
    for (int64_t i = 0; i < size; ++i) g[i] = -g[i];
  }
};

struct Hashes {
  GRADAGRAD_CLONES static void anywhere(uint32_t key, uint32_t index, int64_t size, uint16_t* __restrict low, uint16_t* __restrict high) {
    GRADAGRAD_VECTORS
    for (int64_t i = 0; i < size; ++i) {
      const uint32_t element = index + static_cast<uint32_t>(i), hash = hash_of(key, pair_of(element));
      const uint32_t exchanged = (hash << 16) | (hash >> 16), bits = (element & 8u) ? exchanged : hash;
      low[i] = static_cast<uint16_t>(bits);
      high[i] = static_cast<uint16_t>(bits >> 16);
    }
  }
  // Sixteen elements from eight hashes; `index` is divisible by sixteen.
  GRADAGRAD_CLONES static void sixteens(uint32_t key, uint32_t index, int64_t count, uint16_t* __restrict low, uint16_t* __restrict high) {
    const uint32_t first = pair_of(index);
    for (int64_t i = 0; i < count; ++i) {
      uint32_t hashes[8];
      for (uint32_t j = 0; j < 8; ++j) hashes[j] = hash_of(key, first + static_cast<uint32_t>(8 * i) + j);
      for (int j = 0; j < 8; ++j) {
        low[16 * i + j] = high[16 * i + 8 + j] = static_cast<uint16_t>(hashes[j]);
        high[16 * i + j] = low[16 * i + 8 + j] = static_cast<uint16_t>(hashes[j] >> 16);
      }
    }
  }
};

}  // namespace

template <class T>
void load(Format format, const void* from, T* to, int64_t size) {
  if (format == own_format<T>) {
    std::memcpy(to, from, static_cast<size_t>(size) * sizeof(T));
  } else if (format == Format::bf16) {
    Convert<T>::bf16_in(static_cast<const uint16_t*>(from), to, size);
  } else {
    Convert<T>::f16_in(static_cast<const uint16_t*>(from), to, size);
  }
}

template <class T>
void store(Format format, void* to, const T* from, int64_t size) {
  if (format == own_format<T>) {
    std::memcpy(to, from, static_cast<size_t>(size) * sizeof(T));
  } else if (format == Format::bf16) {
    Convert<T>::bf16_out(static_cast<uint16_t*>(to), from, size);
  } else {
    Convert<T>::f16_out(static_cast<uint16_t*>(to), from, size);
  }
}

template <class T>
void store_stochastic(void* to, const T* from, int64_t size, const uint16_t* random) {
  Convert<T>::stochastic(static_cast<uint16_t*>(to), from, size, random);
}

uint32_t random_key(int64_t seed, int64_t step, int64_t stream, int lane) {
  const uint32_t number = static_cast<uint32_t>(stream) ^ (static_cast<uint32_t>(lane / 2) << 30);
  return scramble(scramble(scramble(static_cast<uint32_t>(seed) + 0x9e3779b9u) ^ static_cast<uint32_t>(step)) ^ number);
}

void random_halves(uint32_t key, int64_t index, int64_t size, uint16_t* low, uint16_t* high) {
  const int64_t count = index % 16 == 0 ? size / 16 : 0, done = 16 * count;
  Hashes::sixteens(key, static_cast<uint32_t>(index), count, low, high);
  Hashes::anywhere(key, static_cast<uint32_t>(index + done), size - done, low + done, high + done);
}

template <class T>
void transform_gradient(T* g, const T* x, bool negated, double decay, int64_t size) {
  if (decay != 0.0) {
    Convert<T>::transform(g, x, negated ? T(-1) : T(1), size, static_cast<T>(decay));
  } else if (negated) {
    Convert<T>::negate(g, size);
  }
}

namespace {

template <class T>
void add_up_rows_in(Format format, const char* values, const int64_t* positions, int64_t count, int64_t width, char* to) {
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

}  // namespace

void add_up_rows(Format format, const char* values, const int64_t* positions, int64_t count, int64_t width, char* to) {
  if (format == Format::f64) {
    add_up_rows_in<double>(format, values, positions, count, width, to);
  } else {
    add_up_rows_in<float>(format, values, positions, count, width, to);
  }
}

#define GRADAGRAD_FORMATS_OF(T)                                                        \
  template void load<T>(Format, const void*, T*, int64_t);                             \
  template void store<T>(Format, void*, const T*, int64_t);                            \
  template void store_stochastic<T>(void*, const T*, int64_t, const uint16_t*);        \
  template void transform_gradient<T>(T*, const T*, bool, double, int64_t)
GRADAGRAD_FORMATS_OF(float);
GRADAGRAD_FORMATS_OF(double);

}  // namespace gradagrad
