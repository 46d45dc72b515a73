// Passes over dense memory.
#pragma once

#include "chunks.h"

namespace gradagrad {

template <class T>
class Pass : protected Chunks<T> {
 public:
  explicit Pass(const Job& job) : Chunks<T>(job) {}

  // Elements [begin, end), each a slot of its own.
  void step(int64_t begin, int64_t end);
  // Elements of a slot that has this pace; adds to `sums` and `traces`. `early`: see Loops.
  void measure(int64_t begin, int64_t end, double* sums, bool early);
  void move(int64_t begin, int64_t end, const double* pace, double* traces, bool early);
  // Rows [begin, end), each a slot.
  void step_rows(int64_t begin, int64_t end);

 protected:
  using Chunks<T>::chunk;
  using Chunks<T>::job_;
  using Chunks<T>::loops_;
  using Chunks<T>::settings_;
  using Chunks<T>::pace_;
  using Chunks<T>::at_;
  using Chunks<T>::buffers_;
  using Chunks<T>::run;
  using Chunks<T>::for_chunks;

  // `gradient` is that of `begin`, if it is not beside the parameter's other elements.
  void measure_range(const Loop<T>& loop, int64_t begin, int64_t end, const char* gradient, double* sums);
  void move_range(const Loop<T>& loop, int64_t begin, int64_t end, const char* gradient, double* traces);
  bool any_gradient(int64_t begin, int64_t end, const char* gradient);
  void step_gathered_rows(int64_t count);
  void step_long_row(int64_t row, const char* gradient);
};

}  // namespace gradagrad
