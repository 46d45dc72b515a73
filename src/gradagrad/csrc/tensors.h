// What the kernel asks of tensors, through torch's stable C interface, and the checks that come before any write.
#pragma once

#include <torch/csrc/inductor/aoti_torch/c/shim.h>
#include <torch/csrc/stable/library.h>
#include <torch/csrc/stable/tensor.h>

#include <cstdint>
#include <vector>

#include "loops.h"

namespace gradagrad {

// Why a step was refused; nothing has been written then. `gradagrad.steps.fused` turns them into sentences.
enum class Refusal : int64_t {
  none = 0,
  lengths,
  device,
  layout,
  parameter_dtype,
  gradient_dtype,
  state_dtype,
  gradient_shape,
  state_shape,
  strides,
  density,
  rows,
  step_counter,
  overlap,
  scaler,
  indices,
};

struct Verdict {
  Refusal reason = Refusal::none;
  int64_t index = 0;
  explicit operator bool() const { return reason != Refusal::none; }
  int64_t code() const { return static_cast<int64_t>(reason) + 64 * index; }
};

enum class Granularity : int64_t { element, row, tensor, group };

// The handles of one Tensor[] argument, released at the end of the call.
class Handles {
 public:
  explicit Handles(StableIValue list);
  ~Handles();
  Handles(const Handles&) = delete;
  Handles& operator=(const Handles&) = delete;
  int64_t size() const { return static_cast<int64_t>(handles_.size()); }
  AtenTensorHandle operator[](int64_t i) const { return handles_[i]; }

 private:
  void release();
  std::vector<AtenTensorHandle> handles_;
};

struct View {
  void* data;
  int64_t size;  // elements
  int64_t dim;
  int64_t* sizes;
  int64_t* strides;
  int32_t dtype;
  bool on_cpu;
  bool strided;
};

View view(AtenTensorHandle handle);
int64_t item_size(int32_t dtype);
bool same_shape(const View& a, const View& b);
bool same_strides(const View& a, const View& b);
bool dense(const View& a);
// Whether first-dimension slices lie one after the other in memory.
bool rows_outermost(const View& a);
int64_t row_length(const View& a);
// The one value of a float32 tensor on the CPU; false if it is not that.
bool scalar(AtenTensorHandle handle, double& value);
// The loops for a parameter of one dtype and a momentum of another; null if there are none.
const Kernels* kernels_for(int32_t parameter, int32_t momentum);
int32_t computing_dtype(int32_t parameter);
bool supported(int32_t parameter);
bool is_counter(const View& step);
// Sets what depends on the parameter's own step count: its decayed learning rate and its random bits.
void clock(Work& work, float steps_taken, int64_t seed, int64_t stream);

// Refuses when a tensor that will be written shares memory with any other. Remembers the last list that passed.
class Overlaps {
 public:
  void reserve(int64_t count) { written_.reserve(count); }
  void written(const View& a);
  void read(const View& a);
  bool found();

 private:
  struct Range {
    uintptr_t begin, end;
  };
  std::vector<Range> written_, read_;
};

void check(AOTITorchError code);

// The arguments of an op arrive as a stack of stable values.
Settings settings_from(const std::vector<double>& numbers, int64_t flags);

}  // namespace gradagrad
