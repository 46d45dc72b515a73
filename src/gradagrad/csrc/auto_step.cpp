#include "auto_step.h"

#include <torch/csrc/stable/library.h>
#include <torch/csrc/stable/ops.h>

#include <algorithm>
#include <mutex>
#include <stdexcept>
#include <unordered_map>

namespace gradagrad {

namespace shared {

using torch::stable::Tensor;
using torch::stable::detail::from;
using torch::stable::detail::to;

namespace {

// Elements whose sums are added up as one, and the fewest that are worth a thread.
constexpr int64_t block = 16384;
constexpr int64_t grain = 32768;
constexpr int64_t lines = 64;  // elements that one thread moves, so that threads do not share cache lines
constexpr uint32_t average_stream = 1u << 31;

std::mutex pending_mutex;
std::unordered_map<int64_t, std::unique_ptr<Pending>> pending;
int64_t pending_count = 0;

std::unique_ptr<Pending> let_go(int64_t number) {
  const std::lock_guard<std::mutex> lock(pending_mutex);
  const auto found = pending.find(number);
  if (found == pending.end()) return nullptr;
  std::unique_ptr<Pending> step = std::move(found->second);
  pending.erase(found);
  return step;
}

}  // namespace

int64_t hold(std::unique_ptr<Pending> step) {
  const std::lock_guard<std::mutex> lock(pending_mutex);
  pending.emplace(++pending_count, std::move(step));
  return pending_count;
}

// In the order of `gradagrad.auto.fused`.
Numbers numbers_from(const std::vector<double>& numbers, int64_t flags) {
  if (numbers.size() != 9) throw std::runtime_error("gradagrad: the kernel expects 9 numbers; rebuild the package.");
  Numbers n;
  n.weight = numbers[0];
  n.scale = numbers[1];
  n.rate = numbers[2];
  n.keep = numbers[3];
  n.share = numbers[4];
  n.eps = numbers[5];
  n.momentum = numbers[6];
  n.coupled_decay = numbers[7];
  n.step = numbers[8];
  n.maximize = flags & 1;
  return n;
}

Sums& sums_at(const Tensor& tensor) {
  const View a = view(tensor.get());
  if (!a.on_cpu || !a.strided || a.dtype != aoti_torch_dtype_float64() || a.size != sums_count || !dense(a)) {
    throw std::runtime_error("gradagrad: the kernel's sums differ from rule.Sums; rebuild the package.");
  }
  return *static_cast<Sums*>(a.data);
}

void count(Work& work, float* counter, int64_t seed, int64_t stream) {
  *counter += 1.0f;
  const auto now = static_cast<uint32_t>(static_cast<int64_t>(*counter));
  work.key = random_key(static_cast<uint32_t>(seed), now, static_cast<uint32_t>(stream));
  work.mean_key = random_key(static_cast<uint32_t>(seed), now, static_cast<uint32_t>(stream) | average_stream);
}

namespace {

// The arguments of the dense op. The lists come in the order of `Lists`, which names them for the other optimizer.
struct Arguments {
  explicit Arguments(StableIValue* stack)
      : lists(lists_of(stack, to<int64_t>(stack[6]))),
        grads(stack[5]),
        numbers(numbers_from(to<std::vector<double>>(stack[7]), to<int64_t>(stack[8]))),
        seed(to<int64_t>(stack[9])),
        streams(to<std::vector<int64_t>>(stack[10])) {}

  const Handles& params() const { return lists->params; }
  const Handles& momenta() const { return lists->momenta; }
  const Handles& accumulators() const { return lists->growths; }
  const Handles& averages() const { return lists->accumulators; }
  const Handles& steps() const { return lists->steps; }

  std::shared_ptr<const Lists> lists;
  Handles grads;
  Numbers numbers;
  int64_t seed;
  std::vector<int64_t> streams;
};

class DenseStep : public Pending {
 public:
  explicit DenseStep(StableIValue* stack) : call_(stack) {}

  // Checks everything and writes nothing.
  Verdict prepare() {
    const int64_t count = call_.params().size();
    averages_ = call_.averages().size() > 0;
    if (call_.grads.size() != count || call_.momenta().size() != count || call_.accumulators().size() != count ||
        call_.steps().size() != count || static_cast<int64_t>(call_.streams.size()) != count ||
        (averages_ && call_.averages().size() != count)) {
      return {Refusal::lengths, 0};
    }
    works_.reserve(count);
    offsets_.reserve(count);
    counters_.reserve(count);
    Overlaps overlaps;
    overlaps.reserve(5 * count);
    for (int64_t i = 0; i < count; ++i) {
      if (const Verdict verdict = add(i, overlaps)) return verdict;
    }
    if (overlaps.found()) return {Refusal::overlap, 0};
    return {};
  }

  Sums measure() const {
    std::vector<Sums> partial(static_cast<size_t>(blocks_));
    parallel(block, [&](const Work& work, int64_t begin, int64_t end) {
      for (int64_t at = begin; at < end; at += block) {
        const int64_t until = std::min(at + block, end);
        partial[work.first_block + at / block] = work.kernels->measure(work, call_.numbers, at, until);
      }
    });
    Sums sums;
    for (const Sums& one : partial) sums.add(one);
    return sums;
  }

  void move(const Numbers& numbers) override {
    for (size_t i = 0; i < works_.size(); ++i) count(works_[i], counters_[i], call_.seed, call_.streams[i]);
    parallel(lines, [&](const Work& work, int64_t begin, int64_t end) { work.kernels->move(work, numbers, begin, end); });
  }

 private:
  Verdict add(int64_t i, Overlaps& overlaps) {
    const View x = view(call_.params()[i]), g = view(call_.grads[i]);
    const View h = view(call_.momenta()[i]), B = view(call_.accumulators()[i]);
    const View mean = averages_ ? view(call_.averages()[i]) : h;
    const View step = view(call_.steps()[i]);
    for (const View* a : {&x, &g, &h, &B, &mean}) {
      if (!a->on_cpu) return {Refusal::device, i};
      if (!a->strided) return {Refusal::layout, i};
    }
    if (!supported(x.dtype)) return {Refusal::parameter_dtype, i};
    if (g.dtype != x.dtype) return {Refusal::gradient_dtype, i};
    const Kernels* kernels = kernels_for(x.dtype, h.dtype);
    if (!kernels || B.dtype != h.dtype || mean.dtype != h.dtype) return {Refusal::state_dtype, i};
    if (!same_shape(x, g)) return {Refusal::gradient_shape, i};
    for (const View* a : {&h, &B, &mean}) {
      if (!same_shape(x, *a)) return {Refusal::state_shape, i};
    }
    if (!dense(x)) return {Refusal::density, i};
    for (const View* a : {&g, &h, &B, &mean}) {
      if (!same_strides(x, *a)) return {Refusal::strides, i};
    }
    if (!is_counter(step)) return {Refusal::step_counter, i};
    overlaps.read(g);
    for (const View* a : {&x, &h, &B, &step}) overlaps.written(*a);
    if (averages_) overlaps.written(mean);

    Work work{};
    work.x = x.data;
    work.g = g.data;
    work.h = h.data;
    work.B = B.data;
    work.mean = averages_ ? mean.data : nullptr;
    work.size = x.size;
    work.row = row_length(x);
    work.first_block = blocks_;
    work.kernels = kernels;
    works_.push_back(work);
    counters_.push_back(static_cast<float*>(step.data));
    offsets_.push_back(total_size_);
    total_size_ += x.size;
    blocks_ += (x.size + block - 1) / block;
    return {};
  }

  // Calls f(work, begin, end) for the units of elements that start in each thread's share of all elements.
  template <class F>
  void parallel(int64_t unit, const F& f) const {
    torch::stable::parallel_for(0, total_size_, grain, [&](int64_t begin, int64_t end) {
      size_t i = std::upper_bound(offsets_.begin(), offsets_.end(), begin) - offsets_.begin() - 1;
      for (; i < works_.size() && offsets_[i] < end; ++i) {
        const Work& work = works_[i];
        const int64_t from = std::max<int64_t>(0, begin - offsets_[i]), until = end - offsets_[i];
        const int64_t first = (from + unit - 1) / unit * unit;
        const int64_t last = std::min(work.size, (until + unit - 1) / unit * unit);
        if (first < last) f(work, first, last);
      }
    });
  }

  const Arguments call_;
  bool averages_ = false;
  std::vector<Work> works_;
  std::vector<int64_t> offsets_;
  std::vector<float*> counters_;
  int64_t total_size_ = 0, blocks_ = 0;
};

}  // namespace

}  // namespace shared

using torch::stable::Tensor;
using torch::stable::detail::from;
using torch::stable::detail::to;

// Returns −(the number to move it by), or why it refused; 0 if it was only to be checked.
void auto_measure(StableIValue* stack, uint64_t, uint64_t) {
  const Tensor sums = to<Tensor>(stack[11]);
  const bool only_check = to<bool>(stack[12]);
  auto step = std::make_unique<shared::DenseStep>(stack);
  int64_t result = step->prepare().code();
  if (result == 0 && !only_check) {
    shared::sums_at(sums) = step->measure();
    result = -shared::hold(std::move(step));
  }
  stack[0] = from(result);
}

void auto_move(StableIValue* stack, uint64_t, uint64_t) {
  const shared::Numbers numbers = shared::numbers_from(to<std::vector<double>>(stack[1]), to<int64_t>(stack[2]));
  const auto step = shared::let_go(to<int64_t>(stack[0]));
  if (!step) throw std::runtime_error("gradagrad: this step has been taken or given up.");
  step->move(numbers);
}

void auto_drop(StableIValue* stack, uint64_t, uint64_t) { shared::let_go(to<int64_t>(stack[0])); }

}  // namespace gradagrad
