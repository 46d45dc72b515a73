#include "tensors.h"

#include <algorithm>
#include <array>
#include <stdexcept>

namespace gradagrad {

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

namespace {

Kind kind_of(int32_t dtype) {
  static const int32_t dtypes[] = {aoti_torch_dtype_float32(), aoti_torch_dtype_float64(), aoti_torch_dtype_bfloat16(),
                                   aoti_torch_dtype_float16(), aoti_torch_dtype_int64(),   aoti_torch_dtype_int32()};
  return static_cast<Kind>(std::find(std::begin(dtypes), std::end(dtypes), dtype) - std::begin(dtypes));
}

// In pieces, because a loop that may end at any number is not vectorised. All bits but the sign are 0 in both zeros alone.
template <class Bits>
bool any_bits(const void* data, int64_t size) {
  constexpr int64_t piece = 1024;
  const Bits* a = static_cast<const Bits*>(data);
  for (int64_t begin = 0; begin < size; begin += piece) {
    Bits found = 0;
    for (int64_t i = begin; i < std::min(begin + piece, size); ++i) found |= a[i];
    if (static_cast<Bits>(found << 1)) return true;
  }
  return false;
}

}  // namespace

View view(AtenTensorHandle handle) {
  static const int32_t cpu = aoti_torch_device_type_cpu(), strided = aoti_torch_layout_strided();
  View a{};
  int32_t device = 0, layout = 0, dtype = 0;
  check(aoti_torch_get_device_type(handle, &device));
  check(aoti_torch_get_layout(handle, &layout));
  check(aoti_torch_get_dtype(handle, &dtype));
  a.kind = kind_of(dtype);
  a.on_cpu = device == cpu;
  a.strided = layout == strided;
  if (!a.on_cpu || !a.strided) return a;
  check(aoti_torch_get_dim(handle, &a.dim));
  check(aoti_torch_get_data_ptr(handle, &a.data));
  a.size = 1;
  if (a.dim == 0) return a;
  check(aoti_torch_get_sizes(handle, &a.sizes));
  check(aoti_torch_get_strides(handle, &a.strides));
  for (int64_t d = 0; d < a.dim; ++d) a.size *= a.sizes[d];
  return a;
}

bool same_shape(const View& a, const View& b) { return a.dim == b.dim && std::equal(a.sizes, a.sizes + a.dim, b.sizes); }

bool same_strides(const View& a, const View& b) {
  if (a.size == 0) return true;  // nothing to step through
  for (int64_t d = 0; d < a.dim; ++d) {
    if (a.sizes[d] != 1 && a.strides[d] != b.strides[d]) return false;
  }
  return true;
}

bool contiguous(const View& a) {
  if (a.size == 0) return true;
  int64_t expected = 1;
  for (int64_t d = a.dim - 1; d >= 0; --d) {
    if (a.sizes[d] != 1 && a.strides[d] != expected) return false;
    expected *= a.sizes[d];
  }
  return true;
}

bool dense(const View& a) {
  if (contiguous(a)) return true;
  std::vector<int64_t> order;
  for (int64_t d = 0; d < a.dim; ++d) {
    if (a.sizes[d] != 1) order.push_back(d);
  }
  std::sort(order.begin(), order.end(), [&](int64_t s, int64_t t) { return a.strides[s] < a.strides[t]; });
  int64_t expected = 1;
  for (int64_t d : order) {
    if (a.strides[d] != expected) return false;
    expected *= a.sizes[d];
  }
  return true;
}

bool rows_outermost(const View& a) {
  return a.size == 0 || a.dim < 2 || a.sizes[0] <= 1 || a.strides[0] == row_length(a);
}

int64_t row_length(const View& a) { return a.dim == 0 || a.size == 0 ? 1 : a.size / a.sizes[0]; }

bool any_nonzero(const View& a) {
  if (a.size == 0) return false;
  const int64_t bytes = a.bytes() / a.size;
  if (dense(a)) return (bytes == 2 ? any_bits<uint16_t> : bytes == 4 ? any_bits<uint32_t> : any_bits<uint64_t>)(a.data, a.size);
  View part{a.data, a.size / a.sizes[0], a.dim - 1, a.sizes + 1, a.strides + 1, a.kind, a.on_cpu, a.strided};
  for (int64_t i = 0; i < a.sizes[0]; ++i) {
    part.data = static_cast<char*>(a.data) + i * a.strides[0] * bytes;
    if (any_nonzero(part)) return true;
  }
  return false;
}

Verdict Checklist::add(const View& a, const Role& role, int64_t index) {
  if (!verdict_) verdict_ = check(a, role, index);
  if (verdict_) return verdict_;
  const auto begin = reinterpret_cast<uintptr_t>(a.data);
  if (a.size) (role.written ? written_ : read_).push_back({begin, begin + static_cast<uintptr_t>(a.bytes())});
  return {};
}

Verdict Checklist::check(const View& a, const Role& role, int64_t index) const {
  if (!a.on_cpu) return {Refusal::device, index};
  if (!a.strided) return {Refusal::layout, index};
  if (!a.is(role.kinds)) return {role.wrong_kind, index};
  if (role.like == &a) {
    if (!dense(a)) return {Refusal::density, index};
  } else if (role.like) {
    if (!same_shape(a, *role.like)) return {role.wrong_shape, index};
    if (!same_strides(a, *role.like)) return {Refusal::strides, index};
  } else {
    if (a.size != role.count) return {role.wrong_shape, index};
    if (!contiguous(a)) return {Refusal::strides, index};
  }
  return {};
}

bool Checklist::overlap(std::vector<Range> written, const std::vector<Range>& read) {
  std::sort(written.begin(), written.end(), [](const Range& a, const Range& b) { return a.begin < b.begin; });
  for (size_t i = 1; i < written.size(); ++i) {
    if (written[i].begin < written[i - 1].end) return true;
  }
  return std::any_of(read.begin(), read.end(), [&](const Range& range) {
    const auto next = std::upper_bound(
        written.begin(), written.end(), range.begin, [](uintptr_t at, const Range& a) { return at < a.end; });
    return next != written.end() && next->begin < range.end;
  });
}

// A training loop brings the same memory step after step, one list for each param group; only a change is worth a search.
Verdict Checklist::overlaps() const {
  if (verdict_) return verdict_;
  static thread_local std::array<Ranges, 8> known;
  static thread_local size_t next = 0;
  for (const Ranges& lists : known) {
    if (lists.written == written_ && lists.read == read_) return {};
  }
  if (overlap(written_, read_)) return {Refusal::overlap, 0};
  known[next++ % known.size()] = {written_, read_};
  return {};
}

}  // namespace gradagrad
