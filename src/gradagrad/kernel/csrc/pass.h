// Passes over the memory of one parameter, and the decision that many elements share.
#pragma once

#include "formats.h"
#include "rules.h"

namespace gradagrad {

// One parameter of a step.
struct Job {
  const Rule* rule;
  char* data[stream::stored];  // by stream
  Format formats[stream::stored];
  Formats kind;   // of all of them: which loops fit
  int64_t size;   // elements
  int64_t width;  // elements of a first-dimension slice, a row
  bool in_double;     // what is computed with
  bool negated;       // maximize
  bool stochastic_x;  // bf16 parameters are rounded at random
  double coupled_decay;
  double settings[max_settings];  // with the parameter's own lr
  uint32_t key;                   // of the random bits
};

// The kind of a job, given how many of its fields the loops over elements see.
Formats kind_of(const Job& job, int elements, int blocks);

// T is what is computed with.
template <class T>
class Pass {
 public:
  explicit Pass(const Job& job);

  // Elements [begin, end), each a block of its own.
  void step(int64_t begin, int64_t end);
  // Elements of a block with these factors; adds to `sums` and `statistics`. `early`: see Loops.
  void measure(int64_t begin, int64_t end, double* sums, bool early);
  void move(int64_t begin, int64_t end, const double* factors, double* statistics, bool early);
  // Rows [begin, end), each a block.
  void step_rows(int64_t begin, int64_t end);

  // The same for rows that a sparse gradient touches.
  void step(const Range* rows, int64_t count) { run(loops_.step, rows, count, job_.width, nullptr); }
  void move(const Range* rows, int64_t count, const double* factors, double* statistics);
  void step_rows(const Range* rows, int64_t count);
  // Brings rows up to date that were so when the clock was at what `clocks` have for them, until `now`, and sets these to
  // `after`, the clock after this step. `row_blocks`: rows are blocks.
  void catch_up(const Range* rows, int64_t count, double* clocks, double now, double after, bool row_blocks);

 private:
  static constexpr int64_t chunk = RandomBits::most;  // elements that are handled together and stay in the nearest cache

  void run(const Loop<T>& loop, const Range* ranges, int64_t count, int64_t size, double* totals);
  void run_buffered(const Loop<T>& loop, const Range& range, int64_t size, double* totals);
  void load(uint64_t streams, const Range& range, int64_t at, int64_t size);
  void store(uint64_t streams, int64_t index, int64_t size);
  int word_of(int s) const;
  void prefetch(const Range& range) const;
  bool any_gradient(const Range& range);
  void set_factors(const double* factors);
  const Loop<T>& move_loop(const double* factors) const;

  const Job& job_;
  const Loops<T>& loops_;
  double settings_[max_settings];
  T factors_[stream::statistics - stream::factors];
  RandomBits random_;
  alignas(64) T buffers_[stream::stored][chunk + 64 / sizeof(T)];  // not a power of two apart, which caches dislike
};

// Calls f(pass) with the pass that fits a job.
template <class F>
void with_pass(const Job& job, const F& f) {
  if (job.in_double) {
    Pass<double> pass(job);
    f(pass);
  } else {
    Pass<float> pass(job);
    f(pass);
  }
}

// The numbers of a block that many elements share, in double.
class Block {
 public:
  explicit Block(const Job& job);
  void decide(const double* sums);
  void report(const double* statistics, double* totals);  // adds to `totals`
  void learn(const double* totals);
  void write() const;
  const double* factors() const { return values_ + stream::factors; }
  double field(int64_t k) const { return values_[stream::blocks + k]; }

 private:
  void run(const Loop<double>& loop);

  const Job* job_;
  double values_[stream::count];
};

}  // namespace gradagrad
