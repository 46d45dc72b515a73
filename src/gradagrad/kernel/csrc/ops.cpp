// The ops as torch sees them. A step is prepared first, which checks everything and writes nothing, and then taken whole or
// phase by phase under the ticket that preparing returned.
#include <torch/csrc/stable/library.h>
#include <torch/csrc/stable/ops.h>

#include <map>
#include <mutex>
#include <stdexcept>

#include "sparse.h"
#include "step.h"

namespace gradagrad {

namespace {

using torch::stable::Tensor;
using torch::stable::detail::from;
using torch::stable::detail::to;

// Things that Python names by a number until it is done with them.
template <class A>
class Numbered {
 public:
  int64_t add(std::shared_ptr<A> a) {
    const std::lock_guard<std::mutex> lock(mutex_);
    all_.emplace(++last_, std::move(a));
    return last_;
  }
  std::shared_ptr<A> get(int64_t number) {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto found = all_.find(number);
    if (found == all_.end()) throw std::runtime_error("gradagrad: this step or list has been released.");
    return found->second;
  }
  void release(int64_t number) {
    typename std::map<int64_t, std::shared_ptr<A>>::node_type last;  // destroyed after the lock
    const std::lock_guard<std::mutex> lock(mutex_);
    last = all_.extract(number);
  }

 private:
  std::mutex mutex_;
  std::map<int64_t, std::shared_ptr<A>> all_;
  int64_t last_ = 0;
};

Numbered<const Handles> lists;
Numbered<Prepared> steps;

Settings settings_from(StableIValue rule, StableIValue scope, StableIValue values, StableIValue flags, StableIValue seed) {
  const auto number = to<int64_t>(rule), flag = to<int64_t>(flags), wide = to<int64_t>(scope);
  const bool known = number >= 0 && number < rule_count && wide >= 0 && wide <= static_cast<int64_t>(Scope::all);
  if (!known) throw std::runtime_error("gradagrad: the kernel lacks this rule; rebuild the package.");
  Settings settings{&rules[number], static_cast<Scope>(wide), to<std::vector<double>>(values), 0.0, 0.0,
                    (flag & 1) != 0, (flag & 2) != 0, to<int64_t>(seed)};
  if (static_cast<int64_t>(settings.values.size()) != settings.rule->settings + 2) {
    throw std::runtime_error("gradagrad: the kernel was built for other settings of this rule; rebuild the package.");
  }
  settings.lr_decay = settings.values.back();
  settings.values.pop_back();
  settings.coupled_decay = settings.values.back();
  settings.values.pop_back();
  return settings;
}

// A ticket, or minus why not.
int64_t ticket_of(std::shared_ptr<Prepared> step) {
  const Verdict verdict = step->prepare();
  return verdict ? -verdict.code() : steps.add(std::move(step));
}

void prepare(StableIValue* stack, uint64_t, uint64_t) {
  auto state = std::make_shared<const Handles>(stack[2]);  // empty if it is a list that the kernel has
  const auto list = to<int64_t>(stack[3]);
  if (list) state = lists.get(list);
  Settings settings = settings_from(stack[4], stack[5], stack[6], stack[7], stack[8]);
  auto step = std::make_shared<Step>(
      std::move(settings), stack[0], stack[1], std::move(state), to<std::vector<int64_t>>(stack[9]));
  stack[0] = from(ticket_of(std::move(step)));
}

void prepare_sparse(StableIValue* stack, uint64_t, uint64_t) {
  Settings settings = settings_from(stack[5], stack[6], stack[7], stack[8], stack[9]);
  auto step = std::make_shared<SparseStep>(
      std::move(settings), to<Tensor>(stack[0]), to<Tensor>(stack[1]), to<Tensor>(stack[2]), stack[3],
      to<std::optional<Tensor>>(stack[4]), to<int64_t>(stack[10]), to<int64_t>(stack[11]));
  stack[0] = from(ticket_of(std::move(step)));
}

double* doubles_at(const Tensor& tensor, int64_t count) {
  const View a = view(tensor.get());
  if (!a.on_cpu || !a.strided || a.kind != Kind::f64 || a.size != count || !contiguous(a)) {
    throw std::runtime_error("gradagrad: sums and statistics must be contiguous float64 tensors on the CPU, a row for each block.");
  }
  return static_cast<double*>(a.data);
}

void run(StableIValue* stack, uint64_t, uint64_t) {
  const auto ticket = to<int64_t>(stack[0]);
  const std::shared_ptr<Prepared> step = steps.get(ticket);
  step->run();
  steps.release(ticket);
}

// Only steps of dense gradients measure and write blocks.
void measure(StableIValue* stack, uint64_t, uint64_t) {
  const std::shared_ptr<Prepared> step = steps.get(to<int64_t>(stack[0]));
  const Tensor sums = to<Tensor>(stack[1]);
  dynamic_cast<Step&>(*step).measure(doubles_at(sums, step->blocks() * step->rule().sums));
}

void move(StableIValue* stack, uint64_t, uint64_t) {
  const std::shared_ptr<Prepared> step = steps.get(to<int64_t>(stack[0]));
  const Tensor sums = to<Tensor>(stack[1]), statistics = to<Tensor>(stack[2]);
  const int64_t blocks = step->blocks();
  step->move(doubles_at(sums, blocks * step->rule().sums), doubles_at(statistics, blocks * step->rule().statistics));
}

void write_blocks(StableIValue* stack, uint64_t, uint64_t) {
  const std::shared_ptr<Prepared> step = steps.get(to<int64_t>(stack[0]));
  const Tensor sums = to<Tensor>(stack[1]);
  dynamic_cast<Step&>(*step).write_blocks(doubles_at(sums, step->blocks() * step->rule().sums));
}

// What the kernel cannot step counts as not zero.
void any_nonzero(StableIValue* stack, uint64_t, uint64_t) {
  const Tensor tensor = to<Tensor>(stack[0]);
  const View a = view(tensor.get());
  stack[0] = from(!a.on_cpu || !a.strided || !a.is(parameter_kinds) || any_nonzero(a));
}

void keep(StableIValue* stack, uint64_t, uint64_t) { stack[0] = from(lists.add(std::make_shared<const Handles>(stack[0]))); }
void release_list(StableIValue* stack, uint64_t, uint64_t) { lists.release(to<int64_t>(stack[0])); }
void release_step(StableIValue* stack, uint64_t, uint64_t) { steps.release(to<int64_t>(stack[0])); }

}  // namespace

STABLE_TORCH_LIBRARY(gradagrad, m) {
  m.def("keep(Tensor[] state) -> int");
  m.def("release_list(int number) -> ()");
  m.def("release_step(int ticket) -> ()");
  m.def(
      "prepare(Tensor[] params, Tensor[] grads, Tensor[] state, int list, int rule, int scope, float[] settings, int flags, "
      "int seed, int[] streams) -> int");
  m.def(
      "prepare_sparse(Tensor param, Tensor rows, Tensor values, Tensor[] state, Tensor? row_clocks, int rule, int scope, "
      "float[] settings, int flags, int seed, int stream, int clock_block) -> int");
  m.def("any_nonzero(Tensor tensor) -> bool");
  m.def("step_(int ticket) -> ()");
  m.def("measure_(int ticket, Tensor(a!) sums) -> ()");
  m.def("move_(int ticket, Tensor sums, Tensor(a!) statistics) -> ()");
  m.def("write_blocks_(int ticket, Tensor sums) -> ()");
}

STABLE_TORCH_LIBRARY_IMPL(gradagrad, CompositeExplicitAutograd, m) {
  m.impl("keep", &keep);
  m.impl("release_list", &release_list);
  m.impl("release_step", &release_step);
  m.impl("prepare", &prepare);
  m.impl("prepare_sparse", &prepare_sparse);
  m.impl("any_nonzero", &any_nonzero);
  m.impl("step_", &run);
  m.impl("measure_", &measure);
  m.impl("move_", &move);
  m.impl("write_blocks_", &write_blocks);
}

}  // namespace gradagrad
