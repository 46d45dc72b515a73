#include "tensors.h"

#include <algorithm>
#include <stdexcept>

namespace gradagrad {

const Kernels* kernels_f32_f32();
const Kernels* kernels_f64_f64();
const Kernels* kernels_bf16_f32();
const Kernels* kernels_f32_bf16();
const Kernels* kernels_bf16_bf16();
const Kernels* kernels_f16_f32();
const Kernels* kernels_f16_bf16();
const Kernels* kernels_f64_bf16();

void check(AOTITorchError code) {
  if (code != AOTI_TORCH_SUCCESS) throw std::runtime_error("gradagrad: a call of torch's stable interface failed.");
}

Handles::Handles(StableIValue list) {
  const auto handle = torch::stable::detail::to<StableListHandle>(list);
  size_t count = 0;
  bool good = torch_list_size(handle, &count) == AOTI_TORCH_SUCCESS;
  handles_.reserve(count);
  for (size_t i = 0; good && i < count; ++i) {
    StableIValue item;
    good = torch_list_get_item(handle, i, &item) == AOTI_TORCH_SUCCESS;
    if (good) handles_.push_back(torch::stable::detail::to<AtenTensorHandle>(item));
  }
  torch_delete_list(handle);
  if (!good) {
    release();
    check(AOTI_TORCH_FAILURE);
  }
}

Handles::~Handles() { release(); }

void Handles::release() {
  for (AtenTensorHandle handle : handles_) aoti_torch_delete_tensor_object(handle);
  handles_.clear();
}

View view(AtenTensorHandle handle) {
  static const int32_t cpu = aoti_torch_device_type_cpu(), strided = aoti_torch_layout_strided();
  View a{};
  int32_t device = 0, layout = 0;
  check(aoti_torch_get_device_type(handle, &device));
  check(aoti_torch_get_layout(handle, &layout));
  check(aoti_torch_get_dtype(handle, &a.dtype));
  a.on_cpu = device == cpu;
  a.strided = layout == strided;
  if (!a.on_cpu || !a.strided) return a;
  check(aoti_torch_get_numel(handle, &a.size));
  check(aoti_torch_get_dim(handle, &a.dim));
  check(aoti_torch_get_sizes(handle, &a.sizes));
  check(aoti_torch_get_strides(handle, &a.strides));
  check(aoti_torch_get_data_ptr(handle, &a.data));
  return a;
}

int64_t item_size(int32_t dtype) {
  static const int32_t f32 = aoti_torch_dtype_float32(), b16 = aoti_torch_dtype_bfloat16();
  static const int32_t f16 = aoti_torch_dtype_float16();
  return dtype == f32 ? 4 : dtype == b16 || dtype == f16 ? 2 : 8;
}

bool same_shape(const View& a, const View& b) { return a.dim == b.dim && std::equal(a.sizes, a.sizes + a.dim, b.sizes); }

bool same_strides(const View& a, const View& b) {
  if (a.size == 0) return true;  // nothing to step through
  for (int64_t d = 0; d < a.dim; ++d) {
    if (a.sizes[d] != 1 && a.strides[d] != b.strides[d]) return false;
  }
  return true;
}

bool dense(const View& a) {
  if (a.size == 0) return true;
  int64_t expected = 1;
  bool contiguous = true;
  for (int64_t d = a.dim - 1; d >= 0 && contiguous; --d) {
    contiguous = a.sizes[d] == 1 || a.strides[d] == expected;
    expected *= a.sizes[d];
  }
  if (contiguous) return true;
  std::vector<int64_t> order;
  for (int64_t d = 0; d < a.dim; ++d) {
    if (a.sizes[d] != 1) order.push_back(d);
  }
  std::sort(order.begin(), order.end(), [&](int64_t s, int64_t t) { return a.strides[s] < a.strides[t]; });
  expected = 1;
  for (int64_t d : order) {
    if (a.strides[d] != expected) return false;
    expected *= a.sizes[d];
  }
  return true;
}

bool rows_outermost(const View& a) {
  return a.size == 0 || a.dim < 2 || a.sizes[0] <= 1 || a.strides[0] == row_length(a);  // given that it is dense
}

int64_t row_length(const View& a) { return a.dim == 0 || a.size == 0 ? 1 : a.size / a.sizes[0]; }

bool scalar(AtenTensorHandle handle, double& value) {
  const View a = view(handle);
  if (!a.on_cpu || !a.strided || a.size != 1 || a.dtype != aoti_torch_dtype_float32()) return false;
  value = *static_cast<const float*>(a.data);
  return true;
}

int32_t computing_dtype(int32_t parameter) {
  static const int32_t f32 = aoti_torch_dtype_float32(), f64 = aoti_torch_dtype_float64();
  return parameter == f64 ? f64 : f32;
}

bool supported(int32_t parameter) {
  static const int32_t f32 = aoti_torch_dtype_float32(), f64 = aoti_torch_dtype_float64();
  static const int32_t b16 = aoti_torch_dtype_bfloat16(), f16 = aoti_torch_dtype_float16();
  return parameter == f32 || parameter == f64 || parameter == b16 || parameter == f16;
}

bool is_counter(const View& step) {
  return step.on_cpu && step.strided && step.size == 1 && step.dtype == aoti_torch_dtype_float32();
}

const Kernels* kernels_for(int32_t parameter, int32_t momentum) {
  static const int32_t f32 = aoti_torch_dtype_float32(), f64 = aoti_torch_dtype_float64();
  static const int32_t b16 = aoti_torch_dtype_bfloat16(), f16 = aoti_torch_dtype_float16();
  if (parameter == f32 && momentum == f32) return kernels_f32_f32();
  if (parameter == f64 && momentum == f64) return kernels_f64_f64();
  if (parameter == b16 && momentum == f32) return kernels_bf16_f32();
  if (parameter == f32 && momentum == b16) return kernels_f32_bf16();
  if (parameter == b16 && momentum == b16) return kernels_bf16_bf16();
  if (parameter == f16 && momentum == f32) return kernels_f16_f32();
  if (parameter == f16 && momentum == b16) return kernels_f16_bf16();
  if (parameter == f64 && momentum == b16) return kernels_f64_bf16();
  return nullptr;
}

void clock(Work& work, float steps_taken, int64_t seed, int64_t stream) {
  const auto now = static_cast<uint32_t>(static_cast<int64_t>(steps_taken) + 1);
  work.settings.lr = work.settings.lr / (1.0 + static_cast<double>(steps_taken) * work.settings.lr_decay);
  work.key = random_key(static_cast<uint32_t>(seed), now, static_cast<uint32_t>(stream));
}

void Overlaps::written(const View& a) {
  const auto begin = reinterpret_cast<uintptr_t>(a.data);
  if (a.size) written_.push_back({begin, begin + static_cast<uintptr_t>(a.size * item_size(a.dtype))});
}

void Overlaps::read(const View& a) {
  const auto begin = reinterpret_cast<uintptr_t>(a.data);
  if (a.size) read_.push_back({begin, begin + static_cast<uintptr_t>(a.size * item_size(a.dtype))});
}

bool Overlaps::found() {
  // A training loop brings the same memory step after step; only a change is worth a search.
  static thread_local std::vector<Range> known_written, known_read;
  const auto same = [](const std::vector<Range>& a, const std::vector<Range>& b) {
    return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(Range)) == 0);
  };
  if (same(written_, known_written) && same(read_, known_read)) return false;
  std::vector<Range> sorted = written_;
  std::sort(sorted.begin(), sorted.end(), [](const Range& a, const Range& b) { return a.begin < b.begin; });
  for (size_t i = 1; i < sorted.size(); ++i) {
    if (sorted[i].begin < sorted[i - 1].end) return true;
  }
  for (const Range& range : read_) {
    const auto next = std::upper_bound(
        sorted.begin(), sorted.end(), range.begin, [](uintptr_t at, const Range& a) { return at < a.end; });
    if (next != sorted.end() && next->begin < range.end) return true;
  }
  known_written = written_;
  known_read = read_;
  return false;
}

// In the order of `gradagrad.steps.fused._numbers`.
Settings settings_from(const std::vector<double>& numbers, int64_t flags) {
  if (numbers.size() != 13) throw std::runtime_error("gradagrad: the kernel expects 13 numbers; rebuild the package.");
  Settings s;
  s.lr = numbers[0];
  s.rho = numbers[1];
  s.beta = numbers[2];
  s.eps = numbers[3];
  s.coupled_decay = numbers[4];
  s.decoupled_decay = numbers[5];
  s.lr_decay = numbers[6];
  s.gamma_max = numbers[7];
  s.growth_limit = numbers[8];
  s.grad_bound = numbers[9];
  s.alpha_0 = numbers[10];
  s.lower = numbers[11];
  s.upper = numbers[12];
  s.maximize = flags & 1;
  s.lazy = flags & 2;
  s.project = flags & 4;
  return s;
}

}  // namespace gradagrad
