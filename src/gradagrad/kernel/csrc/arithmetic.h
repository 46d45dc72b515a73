// What the generated rules are written in: comparisons that let a NaN through as the rules' operations promise.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>

// One build serves every x86-64 machine: the loops exist once per instruction set and the loader picks. Inlined helpers
// take the instruction set of the loop they are inlined into, so only the outermost functions carry the attribute.
#if defined(__x86_64__) && defined(__gnu_linux__) && !defined(GRADAGRAD_NO_CLONES)
#define GRADAGRAD_CLONES __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define GRADAGRAD_CLONES
#endif
#define GRADAGRAD_INLINE inline __attribute__((always_inline))
// Before a loop whose iterations do not depend on one another.
#if defined(__clang__)
#define GRADAGRAD_VECTORS _Pragma("clang loop vectorize(assume_safety)")
#else
#define GRADAGRAD_VECTORS _Pragma("GCC ivdep")
#endif
// glibc 2.29 has newer versions of these functions, which older systems lack.
#if defined(__gnu_linux__) && defined(__x86_64__)
asm(".symver exp,exp@GLIBC_2.2.5\n.symver log,log@GLIBC_2.2.5");
#elif defined(__gnu_linux__) && defined(__aarch64__)
asm(".symver exp,exp@GLIBC_2.17\n.symver log,log@GLIBC_2.17");
#endif

namespace gradagrad {

template <class To, class From>
GRADAGRAD_INLINE To reinterpret(From from) {
  static_assert(sizeof(To) == sizeof(From));
  To to;
  std::memcpy(&to, &from, sizeof(to));
  return to;
}

// A constant that the compiler must not see: it would compare and select where one instruction finds the larger number.
template <class T>
GRADAGRAD_INLINE T opaque(T a) {
  asm("" : "+m"(a));
  return a;
}

// A NaN passes; that of the bound does not.
template <class T>
GRADAGRAD_INLINE T at_least(T a, T bound) {
  return bound > a ? bound : a;
}
template <class T>
GRADAGRAD_INLINE T at_most(T a, T bound) {
  return bound < a ? bound : a;
}

template <class T>
GRADAGRAD_INLINE T select(bool condition, T a, T b) {
  return condition ? a : b;
}

// a where the mask is all ones, b where it is zero. For choices that are the same for all elements: written with a bool, the
// compiler moves the computation of a into a branch and then gives up on vectors.
template <class T>
using mask_t = std::conditional_t<sizeof(T) == 8, uint64_t, uint32_t>;

template <class T>
GRADAGRAD_INLINE mask_t<T> mask_of(bool condition) {
  return condition ? ~mask_t<T>(0) : mask_t<T>(0);
}
template <class T>
GRADAGRAD_INLINE T choose(mask_t<T> mask, T a, T b) {
  return reinterpret<T>(static_cast<mask_t<T>>((reinterpret<mask_t<T>>(a) & mask) | (reinterpret<mask_t<T>>(b) & ~mask)));
}

}  // namespace gradagrad
