// Compiles the generated rules: each loop for each instruction set and each pair of formats.
#include "streams.h"

namespace gradagrad {

namespace {

template <class Function, class T>
constexpr Loop<T> loop_of() {
  if constexpr (std::is_same_v<Function, None>) {
    return {};
  } else {
    using B = uint16_t;
    Loop<T> loop{{Over<Function, T, T, T, false>::run}, Function::reads, Function::writes};
    // What neither reads nor writes the point or its gradient is not worth the others.
    if constexpr (std::is_same_v<T, float> && (Function::reads & 3)) {
      constexpr bool writes_point = Function::writes & 1;
      loop.over[point_bf16] = Over<Function, T, B, T, false>::run;
      loop.over[point_random] = Over<Function, T, B, T, writes_point>::run;
      loop.over[state_bf16] = Over<Function, T, T, B, false>::run;
      loop.over[state_bf16 + point_bf16] = Over<Function, T, B, B, false>::run;
      loop.over[state_bf16 + point_random] = Over<Function, T, B, B, writes_point>::run;
    }
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
