// A decision that many elements share.
#pragma once

#include "chunks.h"

namespace gradagrad {

// The numbers of a slot that many elements share, in double.
class Slot {
 public:
  explicit Slot(const Job& job);
  void decide(const double* sums);
  void learn(const double* traces);
  void write() const;
  const double* pace() const { return values_ + stream::paces; }

 private:
  void run(const Loop<double>& loop);

  const Job& job_;
  double values_[stream::count];
};

}  // namespace gradagrad
