// Runs parallel_for on std::thread, because the thread sanitizer does not understand OpenMP's barriers.
#pragma once

#include <torch/csrc/stable/library.h>
#include <torch/csrc/stable/ops.h>

#include <algorithm>
#include <cstdint>
#include <thread>
#include <vector>

namespace torch::stable {

template <class F>
void plain_parallel_for(int64_t begin, int64_t end, int64_t grain, const F& f) {
  const int64_t threads = std::clamp<int64_t>((end - begin) / std::max<int64_t>(grain, 1), 1, 4);
  const int64_t share = (end - begin + threads - 1) / threads;
  std::vector<std::thread> running;
  for (int64_t first = begin; first < end; first += share) {
    running.emplace_back([&f, first, last = std::min(first + share, end)] { f(first, last); });
  }
  for (std::thread& thread : running) thread.join();
}

}  // namespace torch::stable

#define parallel_for plain_parallel_for
