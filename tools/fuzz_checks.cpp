// Feeds the kernel's checks of tensors (csrc/tensors.cpp) with whatever libFuzzer thinks of, and compares what they accept
// with the plain meaning of it, element by element: everything lies inside the memory that the tensor claims, no two elements
// in one place, and nothing that is written shares memory with anything else.
//
//   tools/fuzz_checks.sh [SECONDS]
#include <cstdlib>
#include <set>
#include <vector>

#include "tensors.h"

namespace {

struct Fake {
  int32_t device, layout, dtype;
  std::vector<int64_t> sizes, strides;
  int64_t size;
  char* data;
};

alignas(64) char arena[1 << 16];

const Fake& fake(AtenTensorHandle handle) { return *reinterpret_cast<const Fake*>(handle); }

// What torch's stable interface would answer.
struct Bytes {
  const uint8_t* data;
  size_t left;
  uint8_t next() { return left ? (--left, *data++) : 0; }
};

}  // namespace

extern "C" {
uint64_t aoti_torch_abi_version() { return 0x020a000000000000; }
int32_t aoti_torch_dtype_float32() { return 0; }
int32_t aoti_torch_dtype_float64() { return 1; }
int32_t aoti_torch_dtype_bfloat16() { return 2; }
int32_t aoti_torch_dtype_float16() { return 3; }
int32_t aoti_torch_dtype_int64() { return 4; }
int32_t aoti_torch_dtype_int32() { return 5; }
int32_t aoti_torch_device_type_cpu() { return 0; }
int32_t aoti_torch_layout_strided() { return 0; }
AOTITorchError aoti_torch_get_device_type(AtenTensorHandle h, int32_t* r) { return *r = fake(h).device, 0; }
AOTITorchError aoti_torch_get_layout(AtenTensorHandle h, int32_t* r) { return *r = fake(h).layout, 0; }
AOTITorchError aoti_torch_get_dtype(AtenTensorHandle h, int32_t* r) { return *r = fake(h).dtype, 0; }
AOTITorchError aoti_torch_get_numel(AtenTensorHandle h, int64_t* r) { return *r = fake(h).size, 0; }
AOTITorchError aoti_torch_get_dim(AtenTensorHandle h, int64_t* r) { return *r = fake(h).sizes.size(), 0; }
AOTITorchError aoti_torch_get_sizes(AtenTensorHandle h, int64_t** r) { return *r = const_cast<int64_t*>(fake(h).sizes.data()), 0; }
AOTITorchError aoti_torch_get_strides(AtenTensorHandle h, int64_t** r) { return *r = const_cast<int64_t*>(fake(h).strides.data()), 0; }
AOTITorchError aoti_torch_get_data_ptr(AtenTensorHandle h, void** r) { return *r = fake(h).data, 0; }
AOTITorchError aoti_torch_delete_tensor_object(AtenTensorHandle) { return 0; }
AOTITorchError torch_list_size(StableListHandle, size_t* r) { return *r = 0, 0; }
AOTITorchError torch_list_get_item(StableListHandle, size_t, StableIValue*) { return 1; }
AOTITorchError torch_delete_list(StableListHandle) { return 0; }
}

namespace {

using namespace gradagrad;

void promise(bool holds) {
  if (!holds) std::abort();
}

// The elements' places, counted from the first, in the order of their indices.
std::vector<int64_t> places(const View& a) {
  std::vector<int64_t> result;
  std::vector<int64_t> index(a.dim, 0);
  for (int64_t n = 0; n < a.size; ++n) {
    int64_t place = 0;
    for (int64_t d = 0; d < a.dim; ++d) place += index[d] * a.strides[d];
    result.push_back(place);
    for (int64_t d = a.dim - 1; d >= 0 && ++index[d] == a.sizes[d]; --d) index[d] = 0;
  }
  return result;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  Bytes bytes{data, size};
  std::vector<Fake> tensors(1 + bytes.next() % 5);
  for (Fake& t : tensors) {
    const uint8_t kind = bytes.next();
    t.dtype = kind % 7;
    t.device = kind > 240;
    t.layout = kind > 230 && kind <= 240;
    const int dim = bytes.next() % 5;
    t.size = 1;
    int64_t expected = 1;
    const bool plain = bytes.next() % 2;  // as torch lays tensors out, or anything
    for (int d = 0; d < dim; ++d) t.sizes.push_back(bytes.next() % 6);
    t.strides.resize(dim);
    for (int d = dim - 1; d >= 0; --d) {
      t.strides[d] = plain ? expected : bytes.next() % 40;
      expected *= t.sizes[d];
      t.size *= t.sizes[d];
    }
    if (!plain && dim > 1 && bytes.next() % 2) {  // or a permutation of that
      expected = 1;
      for (int d = 0; d < dim; ++d) t.strides[d] = expected, expected *= t.sizes[d];
    }
    t.data = arena + 8 * bytes.next();
  }
  std::vector<View> views;
  std::vector<bool> written;
  for (Fake& t : tensors) views.push_back(view(reinterpret_cast<AtenTensorHandle>(&t)));
  Checklist checklist(views.size());
  for (size_t i = 0; i < views.size(); ++i) {
    const View& a = views[i];
    Role role{static_cast<uint32_t>(bytes.next() % 64), Refusal::state_dtype, Refusal::state_shape, nullptr, 0, false};
    const uint8_t choice = bytes.next();
    role.written = choice & 1;
    if (choice & 2) role.like = &views[choice & 4 ? i : 0];
    if (i == 0) role.like = &a;  // the parameter, which others are compared with, is always looked at first
    role.count = bytes.next();
    const View* like = role.like;
    if (checklist.add(a, role, static_cast<int64_t>(i))) return 0;
    promise(a.on_cpu && a.strided && a.kind != Kind::other && a.is(role.kinds));
    const std::vector<int64_t> found = places(a);
    if (like && like != &a) {
      promise(same_shape(a, *like));
      promise(found == places(*like));
    } else {
      promise(like || a.size == role.count);
      std::set<int64_t> all(found.begin(), found.end());
      promise(static_cast<int64_t>(all.size()) == a.size);
      promise(all.empty() || (*all.begin() == 0 && *all.rbegin() == a.size - 1));
      if (rows_outermost(a) && a.dim && a.size) {
        for (int64_t n = 0; n < a.size; ++n) promise(found[n] / row_length(a) == n / row_length(a));
      }
    }
    written.push_back(role.written);
  }
  if (checklist.overlaps()) return 0;
  for (size_t i = 0; i < views.size(); ++i) {
    for (size_t j = 0; j < views.size(); ++j) {
      if (i == j || !written[i] || !views[i].size || !views[j].size) continue;
      const char *a = static_cast<char*>(views[i].data), *b = static_cast<char*>(views[j].data);
      promise(a + views[i].bytes() <= b || b + views[j].bytes() <= a);
    }
  }
  return 0;
}
