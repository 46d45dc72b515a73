// One step of one param group: checked as a whole, then one or two parallel passes over all its memory.
#pragma once

#include <memory>
#include <optional>

#include "tensors.h"

namespace gradagrad {

// What stays the same from step to step. Handing over hundreds of small tensors takes longer than stepping them, so a caller
// may leave them here once and name the number it got: only handles are kept, and everything is read and checked anew.
struct Lists {
  explicit Lists(StableIValue* stack);

  Handles params, momenta, growths, accumulators, steps;
};

int64_t keep(std::shared_ptr<const Lists> lists);
void release(int64_t number);
// The lists at the beginning of a stack, or those kept under a number other than 0.
std::shared_ptr<const Lists> lists_of(StableIValue* stack, int64_t number);

// The arguments that the dense ops share, in the order of their schema: the lists (empty if kept) come first.
struct Call {
  static constexpr uint64_t count = 14;

  explicit Call(StableIValue* stack);

  std::shared_ptr<const Lists> lists;
  Handles grads;
  Granularity granularity;
  std::vector<double> numbers;
  int64_t flags, seed;
  std::vector<int64_t> streams;
  std::optional<torch::stable::Tensor> grad_scale, found_inf;
};

class Step {
 public:
  // `split`: slots are shared with other processes, so that even short ones are measured before they are moved.
  Step(const Call& call, bool split);

  // Checks everything and writes nothing.
  Verdict prepare();
  // GradScaler met an infinity: nothing may change, the step counters included.
  bool skip() const { return found_inf_ != 0.0; }
  void run();

  // The two halves of `run`. Sums are pairs (Σ g², Σ g·m): one for a group, else one for each tensor.
  void measure(bool early);
  int64_t sums() const;
  void write_sums(double* to) const;
  void apply(const double* sums);

 private:
  struct Copy {
    void* growth;
    void* alpha;
    bool precise;
  };

  Verdict add(int64_t i);
  Verdict add_slots(int64_t i, const View& x, const View& m, Work& work);
  Verdict add_copy(int64_t i);
  void place(const Work& work);
  void place_one(Work work);
  template <class F>
  void parallel(const F& f) const;
  void count_steps();
  void unscale(const Work& work, int64_t begin, int64_t end) const;
  Sums sum_of(const Work& work) const;
  void adapt(const double* given);
  void adapt_group(Sums total);
  void move(bool early) const;

  const Call& call_;
  const bool split_;
  Settings settings_;
  double scale_ = 1.0, found_inf_ = 0.0;
  bool shared_ = false;
  std::vector<Work> works_;
  std::vector<int64_t> offsets_;
  std::vector<float*> counters_;
  std::vector<Copy> copies_;
  size_t speaker_ = 0;
  std::vector<Sums> partial_;
  int64_t total_size_ = 0, blocks_ = 0;
  Overlaps overlaps_;
};

}  // namespace gradagrad
