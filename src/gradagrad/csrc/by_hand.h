// Loops that exist a second time, written by hand for AVX2, for settings without options.
#pragma once

#include <cstdint>

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
#define GRADAGRAD_BY_HAND
#endif

namespace gradagrad {

struct Work;

void elements_f32_bf16_avx2(const Work& work, int64_t begin, int64_t end);
void elements_bf16_bf16_avx2(const Work& work, int64_t begin, int64_t end);

}  // namespace gradagrad
