// One phase of a rule over one array, as XLA calls it: the loops that csrc generates from the rules, on XLA's threads.
// XLA:CPU would make a loop for each result, and copies of what several of them read; here there is one, in place.
#include <algorithm>
#include <atomic>
#include <memory>
#include <string_view>
#include <thread>
#include <vector>

#include "streams.h"
#include "xla/ffi/api/ffi.h"

namespace gradagrad {

namespace {

template <class Function, class T>
constexpr Loop<T> loop_of() {
  if constexpr (std::is_same_v<Function, None>) {
    return {};
  } else {
    return {{Over<Function, T, T, T, false>::run}, Function::reads, Function::writes};
  }
}

// Blocks are decided upon by XLA, whose arrays are never brought up to date row by row.
template <class T, class Step, class Measure, class Decide, class Move, class... Rest>
constexpr Loops<T> loops_of() {
  return {loop_of<Step, T>(), loop_of<Measure, T>(), {}, loop_of<Move, T>(), {}, {}, {}, {}};
}

}  // namespace

}  // namespace gradagrad

#include "rules_generated.h"

namespace gradagrad {

namespace {

namespace ffi = xla::ffi;

// Calls f(i) for all i < count on the calling thread and on whatever others come to help. Of those, none is waited for unless
// it has begun, so that calls which keep all threads busy cannot wait for one another.
template <class F>
void in_parallel(ffi::ThreadPool& pool, int64_t count, const F& f) {
  struct Work {
    std::atomic<int64_t> next{0}, done{0};
  };
  const auto work = std::make_shared<Work>();
  const auto help = [work, count, &f] {  // f is there as long as something is left to do
    for (int64_t i; (i = work->next.fetch_add(1)) < count; work->done.fetch_add(1)) f(i);
  };
  const int64_t helpers = std::min(pool.num_threads(), count) - 1;
  for (int64_t i = 0; i < helpers; ++i) pool.Schedule([help] { help(); });
  help();
  while (work->done.load() < count) std::this_thread::yield();  // for the rest of a block
}

// A piece stays in the nearest cache; a block is what a thread takes at once.
constexpr int64_t piece = 1024, block = 32 * piece;

template <class T>
struct Pass {
  const Loop<T>& loop;
  const double* settings;
  const T* factors;  // factors x blocks
  int factor_count;
  int64_t blocks, width;  // the array has blocks * width elements
  T* streams[stream::count];
  int totals;

  // Elements [begin, end) of a block. The point is a copy: its update is left to XLA, which can join it to what follows.
  void run(int64_t block, int64_t begin, int64_t end, double* sums) const {
    T own_factors[stream::statistics - stream::factors];
    for (int k = 0; k < factor_count; ++k) own_factors[k] = factors[k * blocks + block];
    alignas(64) T point[piece];
    char* at[stream::count] = {};
    const Range here{0, nullptr};
    for (int64_t i = block * width + begin, last = block * width + end; i < last; i += piece) {
      const int64_t size = std::min(piece, last - i);
      for (int s = 0; s < stream::stored; ++s) at[s] = streams[s] ? reinterpret_cast<char*>(streams[s] + i) : nullptr;
      if (streams[stream::x]) {
        std::copy(streams[stream::x] + i, streams[stream::x] + i + size, point);
      } else if (loop.reads & 1) {
        std::fill(point, point + size, T(0));
      }
      at[stream::x] = reinterpret_cast<char*>(point);
      loop.over[own]({settings, own_factors, at, &here, 1, size, sums, nullptr});
    }
  }

  // All of it; `results` (totals x blocks) do not depend on the number of threads.
  template <class R>
  void run_all(ffi::ThreadPool& pool, R* results) const {
    const int64_t blocks = (width + block - 1) / block, together = std::max<int64_t>(1, block / std::max<int64_t>(1, width));
    std::vector<double> sums(blocks * blocks * std::max(totals, 1));
    const int64_t groups = (blocks + together - 1) / together;
    in_parallel(pool, groups * blocks, [&](int64_t i) {
      const int64_t b = i % blocks, first = i / blocks * together, last = std::min(blocks, first + together);
      for (int64_t block = first; block < last; ++block) {
        run(block, b * block, std::min(width, (b + 1) * block), &sums[(block * blocks + b) * totals]);
      }
    });
    for (int64_t block = 0; block < blocks; ++block) {
      for (int k = 0; k < totals; ++k) {
        double total = 0.0;
        for (int64_t b = 0; b < blocks; ++b) total += sums[(block * blocks + b) * totals + k];
        results[k * blocks + block] = static_cast<R>(total);
      }
    }
  }
};

// Operands: the settings that are arrays, the factors, then arrays by number of `streams`. Results: arrays, each in the place of
// the operand that `results` names, and totals if there are any.
template <class T>
ffi::Error run(ffi::ThreadPool pool, int64_t variant, std::string_view phase, int64_t blocks,
               ffi::Span<const double> settings, ffi::Span<const int64_t> traced, ffi::Span<const int64_t> streams,
               ffi::Span<const int64_t> results, ffi::RemainingArgs args, ffi::RemainingRets rets) {
  const Rule& rule = rules[variant];
  const Loops<T>& loops = rule.loops<T>();
  const bool measures = phase == "measure", moves = phase == "move";
  const auto data = [&](size_t i) { return static_cast<T*>(args.get<ffi::AnyBuffer>(i)->untyped_data()); };
  double values[max_settings] = {};
  std::copy(settings.begin(), settings.end(), values);
  for (size_t i = 0; i < traced.size(); ++i) values[traced[i]] = data(0)[i];
  const int64_t size = args.get<ffi::AnyBuffer>(2)->element_count();
  Pass<T> pass{measures ? loops.measure : moves ? loops.move : loops.step,
               values,
               data(1),
               moves ? rule.factors : 0,
               blocks,
               size / blocks,
               {},
               measures ? rule.sums : moves ? rule.statistics : 0};
  for (size_t i = 0; i < streams.size(); ++i) pass.streams[streams[i]] = data(i + 2);
  for (size_t i = 0; i < results.size(); ++i) {
    if (rets.get<ffi::AnyBuffer>(i).value()->untyped_data() != data(results[i])) {
      return ffi::Error::Internal("gradagrad: XLA did not let an array be updated in place");
    }
  }
  if (!pass.totals) {
    pass.run_all(pool, static_cast<T*>(nullptr));
    return ffi::Error::Success();
  }
  ffi::Result<ffi::AnyBuffer> totals = rets.get<ffi::AnyBuffer>(results.size()).value();
  if (totals->element_type() == ffi::F64) {
    pass.run_all(pool, static_cast<double*>(totals->untyped_data()));
  } else {
    pass.run_all(pool, static_cast<float*>(totals->untyped_data()));
  }
  return ffi::Error::Success();
}

auto binding() {
  return ffi::Ffi::Bind()
      .Ctx<ffi::ThreadPool>()
      .Attr<int64_t>("variant")
      .Attr<std::string_view>("phase")
      .Attr<int64_t>("blocks")
      .Attr<ffi::Span<const double>>("settings")
      .Attr<ffi::Span<const int64_t>>("traced")
      .Attr<ffi::Span<const int64_t>>("streams")
      .Attr<ffi::Span<const int64_t>>("results")
      .RemainingArgs()
      .RemainingRets();
}

}  // namespace

}  // namespace gradagrad

#pragma GCC visibility push(default)
XLA_FFI_DEFINE_HANDLER_SYMBOL(gradagrad_pass_float32, gradagrad::run<float>, gradagrad::binding());
XLA_FFI_DEFINE_HANDLER_SYMBOL(gradagrad_pass_float64, gradagrad::run<double>, gradagrad::binding());
#pragma GCC visibility pop
