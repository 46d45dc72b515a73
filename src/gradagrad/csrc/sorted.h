// The rows of a sparse gradient, in order.
#pragma once

#include <algorithm>
#include <array>

#include "tensors.h"

namespace gradagrad {

// The positions of each row's values, grouped by row in ascending order: a radix sort, eleven bits at a time.
class Sorted {
 public:
  Sorted(const int64_t* rows, int64_t count, int64_t bound) : positions_(count) {
    bool ascending = true;
    for (int64_t i = 1; i < count && ascending; ++i) ascending = rows[i - 1] < rows[i];
    for (int64_t i = 0; i < count; ++i) positions_[i] = i;
    if (!ascending) sort(rows, count, bound);
    for (int64_t i = 0; i < count; ++i) {
      if (i == 0 || rows[positions_[i]] != rows[positions_[i - 1]]) starts_.push_back(i);
    }
    starts_.push_back(count);
  }

  int64_t unique() const { return static_cast<int64_t>(starts_.size()) - 1; }
  const int64_t* positions(int64_t i) const { return positions_.data() + starts_[i]; }
  int64_t occurrences(int64_t i) const { return starts_[i + 1] - starts_[i]; }

 private:
  void sort(const int64_t* rows, int64_t count, int64_t bound) {
    std::vector<int64_t> other(count);
    for (int shift = 0; (bound - 1) >> shift > 0; shift += 11) {
      std::array<int64_t, 2049> begin{};
      for (int64_t i = 0; i < count; ++i) ++begin[((rows[i] >> shift) & 2047) + 1];
      for (size_t d = 1; d < begin.size(); ++d) begin[d] += begin[d - 1];
      for (const int64_t position : positions_) other[begin[(rows[position] >> shift) & 2047]++] = position;
      positions_.swap(other);
    }
  }

  std::vector<int64_t> positions_, starts_;
};

inline bool is_index(const View& a, int64_t count) {
  return a.on_cpu && a.strided && a.dtype == aoti_torch_dtype_int64() && a.dim == 1 && a.size == count &&
         (a.size < 2 || a.strides[0] == 1);
}

inline bool within(const View& rows, int64_t bound) {
  const auto* row = static_cast<const int64_t*>(rows.data);
  return std::all_of(row, row + rows.size, [&](int64_t r) { return r >= 0 && r < bound; });
}

inline bool contiguous(const View& a) {
  int64_t expected = 1;
  for (int64_t d = a.dim - 1; d >= 0; --d) {
    if (a.sizes[d] != 1 && a.strides[d] != expected) return false;
    expected *= a.sizes[d];
  }
  return true;
}

}  // namespace gradagrad
