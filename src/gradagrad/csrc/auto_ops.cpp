// The ops of AutoGradaGrad as torch sees them. Measuring returns why it refused (see `Refusal`), and has then written
// nothing, or −(the number to move the step by); `auto_drop` gives up a step that was measured.
#include <torch/csrc/stable/library.h>

namespace gradagrad {

void auto_measure(StableIValue* stack, uint64_t inputs, uint64_t outputs);
void auto_sparse_measure(StableIValue* stack, uint64_t inputs, uint64_t outputs);
void auto_move(StableIValue* stack, uint64_t inputs, uint64_t outputs);
void auto_drop(StableIValue* stack, uint64_t inputs, uint64_t outputs);

STABLE_TORCH_LIBRARY_FRAGMENT(gradagrad, m) {
  m.def(
      "auto_measure_(Tensor[] params, Tensor[] momenta, Tensor[] accumulators, Tensor[] averages, Tensor[] steps, "
      "Tensor[] grads, int kept, float[] numbers, int flags, int seed, int[] streams, Tensor(a!) sums, bool only_check) "
      "-> int");
  m.def(
      "auto_sparse_measure_(Tensor param, Tensor rows, Tensor values, Tensor momentum, Tensor accumulator, "
      "Tensor? average, Tensor? clocks, Tensor step, float[] numbers, int flags, int seed, int stream, Tensor(a!) sums) "
      "-> int");
  m.def("auto_move_(int pending, float[] numbers, int flags) -> ()");
  m.def("auto_drop(int pending) -> ()");
}

STABLE_TORCH_LIBRARY_IMPL(gradagrad, CompositeExplicitAutograd, m) {
  m.impl("auto_measure_", &auto_measure);
  m.impl("auto_sparse_measure_", &auto_sparse_measure);
  m.impl("auto_move_", &auto_move);
  m.impl("auto_drop", &auto_drop);
}

}  // namespace gradagrad
