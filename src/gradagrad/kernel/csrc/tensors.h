// What the kernel asks of tensors, through torch's stable C interface, and the one list of checks before any write.
#pragma once

#include <torch/csrc/inductor/aoti_torch/c/shim.h>
#include <torch/csrc/stable/library.h>
#include <torch/csrc/stable/tensor.h>

#include <cstdint>
#include <vector>

#include "formats.h"

namespace gradagrad {

// Why a step was refused; nothing has been written then. `gradagrad.kernel.backend` turns them into sentences.
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
  indices,
  row_clocks,
};

struct Verdict {
  Refusal reason = Refusal::none;
  int64_t index = 0;
  explicit operator bool() const { return reason != Refusal::none; }
  int64_t code() const { return static_cast<int64_t>(reason) + 64 * index; }
};

void check(AOTITorchError code);

// The handles of one Tensor[] argument, released with it.
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

// The first four are formats, in the same order.
enum class Kind : uint8_t { f32, f64, bf16, f16, int64, int32, other };
constexpr uint32_t one_of(Kind kind) { return 1u << static_cast<int>(kind); }
constexpr uint32_t parameter_kinds = one_of(Kind::f32) | one_of(Kind::f64) | one_of(Kind::bf16) | one_of(Kind::f16);

struct View {
  void* data;
  int64_t size;  // elements
  int64_t dim;
  int64_t* sizes;
  int64_t* strides;
  Kind kind;
  bool on_cpu;
  bool strided;

  bool is(uint32_t kinds) const { return (one_of(kind) & kinds) != 0; }
  int64_t bytes() const { return size * (kind == Kind::f64 || kind == Kind::int64 ? 8 : kind == Kind::f32 || kind == Kind::int32 ? 4 : 2); }
};

View view(AtenTensorHandle handle);
bool same_shape(const View& a, const View& b);
bool same_strides(const View& a, const View& b);
bool dense(const View& a);
bool contiguous(const View& a);
// Whether first-dimension slices lie one after the other in memory, given that it is dense.
bool rows_outermost(const View& a);
int64_t row_length(const View& a);
// Whether a number is not zero; NaN is not. Looks no further than the first one.
bool any_nonzero(const View& a);

// What a tensor is for, and with it what it must be.
struct Role {
  uint32_t kinds;
  Refusal wrong_kind, wrong_shape;
  const View* like;  // same shape and strides as this, or
  int64_t count;     // so many numbers without gaps
  bool written;
};

// Of a step counter.
constexpr Role counting{one_of(Kind::int64), Refusal::step_counter, Refusal::step_counter, nullptr, 1, true};

// Refuses what does not fit its role, and what is written but shares memory with anything else. After the first refusal it
// looks at nothing more.
class Checklist {
 public:
  explicit Checklist(int64_t tensors) {
    written_.reserve(tensors);
    read_.reserve(tensors);
  }
  Verdict add(const View& a, const Role& role, int64_t index);
  Verdict verdict() const { return verdict_; }  // so far
  Verdict overlaps() const;

 private:
  struct Range {
    uintptr_t begin, end;
    bool operator==(const Range& other) const { return begin == other.begin && end == other.end; }
  };
  struct Ranges {
    std::vector<Range> written, read;
  };
  Verdict check(const View& a, const Role& role, int64_t index) const;
  static bool overlap(std::vector<Range> written, const std::vector<Range>& read);

  Verdict verdict_;
  std::vector<Range> written_, read_;
};

}  // namespace gradagrad
