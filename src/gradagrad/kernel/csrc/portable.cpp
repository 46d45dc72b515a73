// What a compiler of today calls in the C++ library and glibc although the systems that torch runs on may be too old to have it.
// With definitions of its own one build of the kernel loads on all of them; `make wheels` finds out if one is missing here.
#include <new>
#include <sstream>

#if defined(__GLIBCXX__) && defined(__gnu_linux__)

// glibc 2.32: std::shared_ptr asks whether there is only one thread. Never set, it counts atomically.
extern "C" {
__attribute__((visibility("hidden"))) char __libc_single_threaded = 0;
}

// GCC 11's library: std::__throw_bad_array_new_length().
extern "C" [[noreturn]] __attribute__((visibility("hidden"))) void _ZSt28__throw_bad_array_new_lengthv() {
  throw std::bad_array_new_length();
}

// GCC 9's library.
template std::basic_stringstream<char>::basic_stringstream();

#endif
