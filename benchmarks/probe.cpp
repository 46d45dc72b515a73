// A probe for benchmarks. It moves the bytes of a step and computes next to nothing, which measures the machine's limit.
#include <torch/csrc/stable/library.h>
#include <torch/csrc/stable/ops.h>

#include <algorithm>
#include <stdexcept>

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

// Reads `read`; reads and writes `written`. All are int64 and contiguous. Pieces of all of them advance together, as in a
// step.
static void probe(StableIValue* stack, uint64_t, uint64_t) {
  const Handles read(stack[0]), written(stack[1]);
  std::vector<View> reads, writes;
  for (int64_t i = 0; i < read.size(); ++i) reads.push_back(view(read[i]));
  for (int64_t i = 0; i < written.size(); ++i) writes.push_back(view(written[i]));
  int64_t longest = 1;
  for (const std::vector<View>* views : {&reads, &writes}) {
    for (const View& a : *views) {
      if (!a.on_cpu || !a.strided || a.kind != Kind::int64 || !dense(a)) {
        throw std::runtime_error("gradagrad: the probe takes contiguous int64 tensors on the CPU.");
      }
      longest = std::max(longest, a.size);
    }
  }
  // Pieces are as small as the kernel's and the next one is prefetched. Pieces of a page took a third longer or more.
  constexpr int64_t words = 64;
  const int64_t pieces = (longest + words - 1) / words;
  std::vector<int64_t> read_lengths, write_lengths;
  for (const View& a : reads) read_lengths.push_back((words * a.size + longest - 1) / longest);
  for (const View& a : writes) write_lengths.push_back((words * a.size + longest - 1) / longest);
  torch::stable::parallel_for(0, pieces, 128, [&](int64_t begin, int64_t end) {
    for (int64_t piece = begin; piece < end; ++piece) {
      uint64_t mixed = 1;
      for (size_t k = 0; k < reads.size(); ++k) {
        const View& a = reads[k];
        const int64_t size = read_lengths[k], from = std::min(a.size, piece * size), until = std::min(a.size, from + size);
        const auto* data = static_cast<const uint64_t*>(a.data);
        for (int64_t i = 0; i < size; i += 8) __builtin_prefetch(data + from + size + i, 0);
        mixed ^= read_words(data + from, until - from);
      }
      for (size_t k = 0; k < writes.size(); ++k) {
        const View& a = writes[k];
        const int64_t size = write_lengths[k], from = std::min(a.size, piece * size), until = std::min(a.size, from + size);
        auto* data = static_cast<uint64_t*>(a.data);
        for (int64_t i = 0; i < size; i += 8) __builtin_prefetch(data + from + size + i, 1);
        change_words(data + from, until - from, mixed);
      }
    }
  });
}

// The same for a sparse step: reads and writes these rows of each table. Rows are int64 and ascending, as in a sparse step
// after sorting. Tables are int64 and contiguous.
static void probe_rows(StableIValue* stack, uint64_t, uint64_t) {
  const torch::stable::Tensor rows = torch::stable::detail::to<torch::stable::Tensor>(stack[0]);
  const Handles tables(stack[1]);
  const View index = view(rows.get());
  std::vector<View> views;
  for (int64_t i = 0; i < tables.size(); ++i) views.push_back(view(tables[i]));
  const auto* row = static_cast<const int64_t*>(index.data);
  for (const View& a : views) {
    const bool fits = a.on_cpu && a.strided && a.kind == Kind::int64 && a.dim == 2 && dense(a);
    if (!fits || !std::all_of(row, row + index.size, [&](int64_t r) { return r >= 0 && r < a.sizes[0]; })) {
      throw std::runtime_error("gradagrad: the probe takes contiguous int64 tables on the CPU and rows inside them.");
    }
  }
  constexpr int64_t ahead = 32;
  torch::stable::parallel_for(0, index.size, 512, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      for (const View& a : views) {
        auto* words = static_cast<uint64_t*>(a.data);
        if (i + ahead < end) __builtin_prefetch(words + row[i + ahead] * a.sizes[1], 1);
        change_words(words + row[i] * a.sizes[1], a.sizes[1], 1);
      }
    }
  });
}

STABLE_TORCH_LIBRARY(gradagrad_probe, m) {
  m.def("probe_(Tensor[] read, Tensor(a!)[] written) -> ()");
  m.def("probe_rows_(Tensor rows, Tensor(a!)[] tables) -> ()");
}

STABLE_TORCH_LIBRARY_IMPL(gradagrad_probe, CompositeExplicitAutograd, m) {
  m.impl("probe_", &probe);
  m.impl("probe_rows_", &probe_rows);
}

}  // namespace gradagrad
