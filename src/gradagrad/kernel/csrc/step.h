// A step of one batch: checked as a whole, then a parallel pass or two over all its memory.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "pass.h"
#include "tensors.h"

namespace gradagrad {

// Who shares a decision, in the order of gradagrad.rules.scope.
enum class Scope : int64_t { element, row, tensor, group, all };

// What a step needs besides tensors, as it comes from Python.
struct Settings {
  const Rule* rule;
  Scope scope;
  std::vector<double> values;   // the rule's, in the order it was generated with
  double coupled_decay, lr_decay;
  bool maximize, stochastic_x;
  int64_t seed;

  bool shared() const { return scope == Scope::group || scope == Scope::all; }
  bool single() const { return scope != Scope::element && scope != Scope::row; }  // one block for a tensor or more
  bool is_shared(int block_field) const { return shared() || block_field >= rule->own; }
  // What the state of a parameter must be: a field of its elements, or of its blocks.
  Role role_of(const View& x, bool block) const;
  // The part of a job that tensors have no say in; `steps` counts the steps before this one.
  void set(Job& job, int64_t steps, int64_t stream) const;
};

// Notes a tensor of a job, and checks it.
Verdict put(Job& job, int stream, const View& a, const Role& role, Checklist& checklist, int64_t index);
Verdict put_parameter(Job& job, const View& x, Checklist& checklist, int64_t index);

// A step that has been checked and not yet taken.
class Prepared {
 public:
  explicit Prepared(Settings settings) : settings_(std::move(settings)) {}
  virtual ~Prepared() = default;
  const Rule& rule() const { return *settings_.rule; }
  virtual Verdict prepare() = 0;  // Checks everything and writes nothing.
  virtual void run() = 0;
  virtual int64_t blocks() const { return 1; }
  // Sums and statistics have the rule's count of numbers for each block.
  virtual void move(const double* sums, double* statistics) = 0;

 protected:
  const Settings settings_;
};

class Step : public Prepared {
 public:
  // `state`: counters, then each element field and each block field of the parameters, then the fields they share.
  Step(Settings settings, StableIValue params, StableIValue grads, std::shared_ptr<const Handles> state,
       std::vector<int64_t> streams);

  Verdict prepare() override;
  void run() override;
  int64_t blocks() const override { return settings_.shared() ? 1 : static_cast<int64_t>(jobs_.size()); }
  void measure(double* sums);
  void move(const double* sums, double* statistics) override;
  void write_blocks(const double* sums);  // as they are decided

 private:
  // Where a job's elements lie among all, and how they are divided.
  struct Place {
    int64_t offset;       // elements before it
    int64_t unit;         // elements that one thread handles together
    int64_t first_block;  // of its units among all that add to sums
    bool short_block;      // a block of its own that fits into the cache
  };

  Verdict add(int64_t i, Checklist& checklist);
  void place(const Job& job);
  template <class F>
  void parallel(const F& f) const;
  void count_steps();
  // Whether a job's block is measured, decided and moved in one go, while it is in the cache.
  bool at_once(size_t job) const { return whole_ && places_[job].short_block; }
  void learn(const double* statistics);
  template <class F>
  void in_units(int count, double* totals, const F& f);
  int64_t block_of(size_t job) const { return settings_.shared() ? 0 : static_cast<int64_t>(job); }

  const Handles params_, grads_;
  const std::shared_ptr<const Handles> state_;
  const std::vector<int64_t> streams_;
  std::vector<Job> jobs_;
  std::vector<Place> places_;
  std::vector<int64_t*> counters_;
  std::vector<double> units_;       // what each unit adds to its block
  std::vector<Block> decided_;      // by job
  int64_t total_ = 0, blocks_ = 0;
  bool whole_ = false;  // all phases at once, not one by one
};

}  // namespace gradagrad
