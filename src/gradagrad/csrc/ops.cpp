// The ops as torch sees them. Each returns 0, or why it refused (see `Refusal`), and has then written nothing.
#include <torch/csrc/stable/library.h>
#include <torch/csrc/stable/ops.h>

#include <memory>
#include <stdexcept>

#include "step.h"

namespace gradagrad {

void sparse_step(StableIValue* stack, uint64_t inputs, uint64_t outputs);
void probe(StableIValue* stack, uint64_t inputs, uint64_t outputs);
void probe_rows(StableIValue* stack, uint64_t inputs, uint64_t outputs);

namespace {

using torch::stable::Tensor;
using torch::stable::detail::from;
using torch::stable::detail::to;

double* numbers_of(const Tensor& tensor, int64_t count) {
  const View a = view(tensor.get());
  if (!a.on_cpu || !a.strided || a.dtype != aoti_torch_dtype_float64() || a.size != count || !dense(a)) {
    throw std::runtime_error("gradagrad: sums must be a contiguous float64 tensor on the CPU with a pair for each slot.");
  }
  return static_cast<double*>(a.data);
}

void keep_lists(StableIValue* stack, uint64_t, uint64_t) {
  const int64_t number = keep(std::make_shared<const Lists>(stack));
  stack[0] = from(number);
}

void release_lists(StableIValue* stack, uint64_t, uint64_t) { release(to<int64_t>(stack[0])); }

void step(StableIValue* stack, uint64_t, uint64_t) {
  int64_t code = 0;
  {
    const Call call(stack);
    const bool only_check = to<bool>(stack[Call::count]);
    Step step(call, false);
    const Verdict verdict = step.prepare();
    code = verdict.code();
    if (!verdict && !only_check && !step.skip()) step.run();
  }
  stack[0] = from(code);
}

void measure(StableIValue* stack, uint64_t, uint64_t) {
  int64_t code = 0;
  {
    const Call call(stack);
    const Tensor sums = to<Tensor>(stack[Call::count]);
    Step step(call, true);
    const Verdict verdict = step.prepare();
    code = verdict.code();
    if (!verdict && !step.skip()) {
      double* to = numbers_of(sums, 2 * step.sums());
      step.measure(false);
      step.write_sums(to);
    }
  }
  stack[0] = from(code);
}

void apply(StableIValue* stack, uint64_t, uint64_t) {
  int64_t code = 0;
  {
    const Call call(stack);
    const Tensor sums = to<Tensor>(stack[Call::count]);
    Step step(call, true);
    const Verdict verdict = step.prepare();
    code = verdict.code();
    if (!verdict && !step.skip()) step.apply(numbers_of(sums, 2 * step.sums()));
  }
  stack[0] = from(code);
}

}  // namespace

#define GRADAGRAD_STEP_ARGUMENTS                                                                                      \
  "Tensor(a!)[] params, Tensor(b!)[] momenta, Tensor(c!)[] growths, Tensor(d!)[] accumulators, Tensor(e!)[] steps, "    \
  "Tensor(f!)[] grads, int kept, int granularity, float[] numbers, int flags, int seed, int[] streams, "                \
  "Tensor? grad_scale, Tensor? found_inf"

STABLE_TORCH_LIBRARY(gradagrad, m) {
  m.def("keep(Tensor[] params, Tensor[] momenta, Tensor[] growths, Tensor[] accumulators, Tensor[] steps) -> int");
  m.def("release(int kept) -> ()");
  m.def("step_(" GRADAGRAD_STEP_ARGUMENTS ", bool only_check) -> int");
  m.def("measure_(" GRADAGRAD_STEP_ARGUMENTS ", Tensor(g!) sums) -> int");
  m.def("apply_(" GRADAGRAD_STEP_ARGUMENTS ", Tensor sums) -> int");
  m.def(
      "sparse_step_(Tensor(a!) param, Tensor rows, Tensor values, Tensor(b!) momentum, Tensor(c!) growth, "
      "Tensor(d!) accumulator, Tensor(e!) step, Tensor? last_rows, Tensor(f!)? rows_out, int granularity, float[] numbers, "
      "int flags, int seed, int stream, Tensor? grad_scale, Tensor? found_inf, bool only_check) -> int");
  m.def("probe_(Tensor[] read, Tensor(a!)[] written) -> ()");
  m.def("probe_rows_(Tensor rows, Tensor(a!)[] tables) -> ()");
}

STABLE_TORCH_LIBRARY_IMPL(gradagrad, CompositeExplicitAutograd, m) {
  m.impl("keep", &keep_lists);
  m.impl("release", &release_lists);
  m.impl("step_", &step);
  m.impl("measure_", &measure);
  m.impl("apply_", &apply);
  m.impl("sparse_step_", &sparse_step);
  m.impl("probe_", &probe);
  m.impl("probe_rows_", &probe_rows);
}

}  // namespace gradagrad
