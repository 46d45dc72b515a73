#include <mutex>
#include <stdexcept>
#include <unordered_map>

#include "step.h"

namespace gradagrad {

using torch::stable::Tensor;
using torch::stable::detail::to;

Lists::Lists(StableIValue* stack)
    : params(stack[0]), momenta(stack[1]), growths(stack[2]), accumulators(stack[3]), steps(stack[4]) {}

namespace {

std::mutex kept_mutex;
std::unordered_map<int64_t, std::shared_ptr<const Lists>> kept;
int64_t kept_count = 0;

}  // namespace

int64_t keep(std::shared_ptr<const Lists> lists) {
  const std::lock_guard<std::mutex> lock(kept_mutex);
  kept.emplace(++kept_count, std::move(lists));
  return kept_count;
}

void release(int64_t number) {
  const std::lock_guard<std::mutex> lock(kept_mutex);
  kept.erase(number);
}

std::shared_ptr<const Lists> lists_of(StableIValue* stack, int64_t number) {
  auto given = std::make_shared<const Lists>(stack);  // empty if kept, and released either way
  if (number == 0) return given;
  const std::lock_guard<std::mutex> lock(kept_mutex);
  const auto found = kept.find(number);
  if (found == kept.end()) throw std::runtime_error("gradagrad: these lists have been released.");
  return found->second;
}

Call::Call(StableIValue* stack)
    : lists(lists_of(stack, to<int64_t>(stack[6]))),
      grads(stack[5]),
      granularity(static_cast<Granularity>(to<int64_t>(stack[7]))),
      numbers(to<std::vector<double>>(stack[8])),
      flags(to<int64_t>(stack[9])),
      seed(to<int64_t>(stack[10])),
      streams(to<std::vector<int64_t>>(stack[11])),
      grad_scale(to<std::optional<Tensor>>(stack[12])),
      found_inf(to<std::optional<Tensor>>(stack[13])) {}

}  // namespace gradagrad
