// Passes over the rows that a sparse gradient touches.
#pragma once

#include "pass.h"

namespace gradagrad {

// Rows first catch up with the steps until `now` that left them out.
template <class T>
class TouchedPass : private Pass<T> {
 public:
  explicit TouchedPass(const Job& job) : Pass<T>(job) {}

  // Elements are slots of their own, or rows are.
  void step(const TouchedRow* rows, int64_t count, int32_t now, bool row_slots);
  // Elements of a slot that has this pace; adds to `sums` and `traces`.
  void measure(const TouchedRow* rows, int64_t count, double* sums);
  void move(const TouchedRow* rows, int64_t count, int32_t now, const double* pace, double* traces);

 private:
  using Chunks<T>::chunk;
  using Chunks<T>::job_;
  using Chunks<T>::loops_;
  using Chunks<T>::settings_;
  using Chunks<T>::pace_;
  using Chunks<T>::at_;
  using Chunks<T>::buffers_;
  using Chunks<T>::run;
  using Chunks<T>::for_chunks;

  bool rows_in_place(const Loop<T>& loop) const;
  void run_rows(const Loop<T>& loop, const TouchedRow* rows, int64_t count, int32_t now, double* totals);
  template <class F>
  void for_gathered(uint32_t reads, uint32_t writes, const TouchedRow* rows, int64_t count, const F& f);
  void catch_up(const TouchedRow& row, int32_t now, int64_t offset, bool row_slots, int64_t slot);
  void catch_up_long(const TouchedRow& row, int32_t now, bool row_slots);
};

}  // namespace gradagrad
