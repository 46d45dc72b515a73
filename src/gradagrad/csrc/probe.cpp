// A probe for benchmarks: moves the bytes of a step and computes next to nothing, which is the machine's limit.
#include <torch/csrc/stable/library.h>
#include <torch/csrc/stable/ops.h>

#include <algorithm>

#include "tensors.h"

namespace gradagrad {

namespace {

GRADAGRAD_CLONES uint64_t read_words(const uint64_t* from, int64_t count) {
  uint64_t mixed = 0;
  for (int64_t i = 0; i < count; ++i) mixed ^= from[i];
  return mixed;
}

GRADAGRAD_CLONES void change_words(uint64_t* __restrict words, int64_t count, uint64_t mixed) {
  for (int64_t i = 0; i < count; ++i) words[i] ^= mixed;
}

}  // namespace

// `read` is read, `written` read and written; all int64 and contiguous. Pieces of all of them advance together, as the
// streams of a step do.
void probe(StableIValue* stack, uint64_t, uint64_t) {
  const Handles read(stack[0]), written(stack[1]);
  std::vector<View> reads, writes;
  for (int64_t i = 0; i < read.size(); ++i) reads.push_back(view(read[i]));
  for (int64_t i = 0; i < written.size(); ++i) writes.push_back(view(written[i]));
  int64_t longest = 1;
  for (const std::vector<View>* views : {&reads, &writes}) {
    for (const View& a : *views) {
      if (!a.on_cpu || !a.strided || a.dtype != aoti_torch_dtype_int64() || !dense(a)) {
        throw std::runtime_error("gradagrad: the probe takes contiguous int64 tensors on the CPU.");
      }
      longest = std::max(longest, a.size);
    }
  }
  const int64_t pieces = (longest + 511) / 512;
  torch::stable::parallel_for(0, pieces, 16, [&](int64_t begin, int64_t end) {
    for (int64_t piece = begin; piece < end; ++piece) {
      const auto bounds = [&](const View& a) {
        return std::pair<int64_t, int64_t>{a.size * piece / pieces, a.size * (piece + 1) / pieces};
      };
      uint64_t mixed = 1;
      for (const View& a : reads) {
        const auto [from, until] = bounds(a);
        mixed ^= read_words(static_cast<const uint64_t*>(a.data) + from, until - from);
      }
      for (const View& a : writes) {
        const auto [from, until] = bounds(a);
        change_words(static_cast<uint64_t*>(a.data) + from, until - from, mixed);
      }
    }
  });
}

}  // namespace gradagrad
