#include "slot.h"

namespace gradagrad {

Slot::Slot(const Job& job) : job_(job) {
  for (int k = 0; k < job.rule->slots; ++k) {
    std::memcpy(&values_[stream::slots + k], job.data[stream::slots + k], sizeof(double));
  }
}

void Slot::decide(const double* sums) {
  std::copy(sums, sums + job_.rule->sums, values_ + stream::sums);
  run(job_.rule->in_double.decide);
}

void Slot::learn(const double* traces) {
  if (!job_.rule->learn) return;
  std::copy(traces, traces + job_.rule->traces, values_ + stream::traces);
  run(job_.rule->learn);
}

void Slot::write() const {
  for (int k = 0; k < job_.rule->slots; ++k) {
    std::memcpy(job_.data[stream::slots + k], &values_[stream::slots + k], sizeof(double));
  }
}

void Slot::run(const Loop<double>& loop) {
  double* streams[stream::count];
  for (int s = 0; s < stream::count; ++s) streams[s] = values_ + s;
  loop.run({job_.settings, nullptr, streams, 1, nullptr});
}

}  // namespace gradagrad
