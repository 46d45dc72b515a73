// Compiles the generated rules, each loop once for each instruction set.
#include <type_traits>
#include <utility>

#include "rules.h"

#include "staged.h"

namespace gradagrad {

namespace {

template <class Function, class T>
struct Cloned {
  GRADAGRAD_CLONES static void run(const Arguments<T>& given) {
    const typename Function::template Body<T> body(given.settings, given.pace);
    body.loop(given.streams, given.size, given.totals);
  }
};

template <class Function, class T>
struct OverRows {
  static constexpr int64_t ahead = 32;  // rows lie anywhere in a table, so the hardware cannot guess the next one
  static constexpr uint32_t streams = (Function::reads | Function::writes) & ((1u << stream::stored) - 1);

  template <int S>
  static GRADAGRAD_INLINE void point(const RowArguments<T>& given, int64_t i, T** at) {
    if constexpr (S != stream::g && ((streams >> S) & 1)) {
      at[S] = reinterpret_cast<T*>(given.data[S]) + given.rows[i].row * given.width;
      if (i + ahead < given.count) {
        __builtin_prefetch(reinterpret_cast<T*>(given.data[S]) + given.rows[i + ahead].row * given.width, 1);
      }
    }
  }
  template <int... S>
  static GRADAGRAD_INLINE void each(const RowArguments<T>& given, std::integer_sequence<int, S...>) {
    const typename Function::template Body<T> body(given.settings, given.pace);
    for (int64_t i = 0; i < given.count; ++i) {
      T* at[stream::count];
      (point<S>(given, i, at), ...);
      at[stream::g] = reinterpret_cast<T*>(const_cast<char*>(given.rows[i].values));
      body.loop(at, given.width, given.totals);
    }
  }
  GRADAGRAD_CLONES static void run(const RowArguments<T>& given) {
    each(given, std::make_integer_sequence<int, stream::stored>());
  }
};

struct None;

// What is added up must stay finite: products of doubles stop at the largest, those of floats are far from it.
template <class P>
GRADAGRAD_INLINE double bounded(double a) {
  constexpr double largest = std::numeric_limits<double>::max();
  return sizeof(P) < sizeof(double) ? a : at_least(at_most(a, largest), -largest);
}

// Only whole steps and moves, which write x, are worth other forms.
template <class Function, class T>
constexpr Loop<T> loop_of() {
  if constexpr (std::is_same_v<Function, None>) {
    return {nullptr, nullptr, nullptr, 0, 0};
  } else {
    Loop<T> loop{Cloned<Function, T>::run, nullptr, nullptr, Function::reads, Function::writes};
    if constexpr (Function::writes & 1) loop.rows = OverRows<Function, T>::run;
    if constexpr ((Function::writes & 1) && std::is_same_v<T, float>) loop.staged = Staged<Function>::run;
    return loop;
  }
}

template <class T, class... Functions>
constexpr Loops<T> loops_of() {
  return {loop_of<Functions, T>()...};
}

}  // namespace

}  // namespace gradagrad

#include "rules_generated.h"
