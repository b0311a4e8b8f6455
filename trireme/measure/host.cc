#include "trireme/measure/host.h"

#include <algorithm>
#include <cstring>

#include "trireme/comm/combine.h"
#include "trireme/eager/context.h"
#include "trireme/eager/ops.h"
#include "trireme/measure/link.h"
#include "trireme/runtime/real/real_runtime.h"

namespace trireme::measure {
namespace {

// Median of the repeats of `fn`, each `calls` calls, after one that is not counted.
template <typename Fn>
Repeats time_of(const runtime::Runtime& rt, int repeats, int calls, Fn&& fn) {
  std::vector<double> seconds;
  for (int i = 0; i <= repeats; ++i) {
    const TimeNs start = rt.now();
    for (int c = 0; c < calls; ++c) fn();
    if (i > 0) seconds.push_back(to_seconds(rt.now() - start) / calls);
  }
  return summarise_repeats(std::move(seconds));
}

}  // namespace

Status measure_host(const runtime::Runtime& rt, bool quick, cost::Calibration& calibration) {
  const int repeats = quick ? 3 : 9;
  cost::MachineModel& machine = calibration.machine;
  machine.name = calibration.host;
  machine.cores = runtime::num_cores();

  // What is added has just come in: a vector that fits in the second-level cache, as chunks mostly do.
  constexpr std::size_t kElems = 64 << 10;
  TR_ASSIGN_OR_RETURN(const comm::Combine sum, comm::find_combine(DType::kF32, collective::Reduction::kSum));
  std::vector<float> a(kElems, 1.0F), b(kElems, 0.5F);
  const Repeats add = time_of(rt, repeats, 50, [&] {
    sum.apply(reinterpret_cast<std::byte*>(a.data()), reinterpret_cast<const std::byte*>(b.data()), kElems,
              false);
  });
  calibration.reduce_seconds_per_byte = add.median / (kElems * sizeof(float));
  calibration.reduce_spread = add.spread;

  // Far larger than caches; a copy reads and writes.
  const std::size_t copied = quick ? (8U << 20) : (64U << 20);
  std::vector<std::byte> from(copied, std::byte{1}), to(copied);
  const Repeats copy = time_of(rt, repeats, 1, [&] { std::memcpy(to.data(), from.data(), copied); });
  machine.bytes_per_second = 2 * static_cast<double>(copied) / copy.median;

  const std::int64_t n = quick ? 128 : 512;
  eager::Context context;
  const eager::NoGrad no_grad = context.no_grad();
  const eager::Array x = context.full(0.5, TensorType{DType::kF32, Shape{n, n}});
  Status failure;
  const Repeats product = time_of(rt, repeats, 2, [&] {
    const eager::Array y = eager::matmul(x, x);
    if (!y.ok()) failure = y.status();
  });
  TR_RETURN_IF_ERROR(failure);
  const auto flops = 2.0 * static_cast<double>(n) * static_cast<double>(n) * static_cast<double>(n);
  machine.flops_per_second_per_core = flops / product.median;

  // A call that does next to nothing.
  const eager::Array one = context.full(1, TensorType{DType::kF32, Shape{1}});
  const Repeats call = time_of(rt, repeats, 100, [&] { failure = (one + one).status(); });
  TR_RETURN_IF_ERROR(failure);
  machine.op_overhead_ns = from_seconds(call.median);
  return {};
}

runtime::Task<void> measure_memory(runtime::Runtime& rt, bool quick, cost::Calibration& calibration) {
  const int repeats = quick ? 3 : 9, cores = runtime::num_cores();
  const std::size_t each = quick ? (4U << 20) : (32U << 20);
  std::vector<std::byte> from(each * static_cast<std::size_t>(cores), std::byte{1}), to(from.size());
  double seconds = 0;
  runtime::ComputeFn copy = [&](runtime::ComputeContext& pool) {
    const Repeats all = time_of(rt, repeats, 1, [&] {
      pool.parallel_for(cores, [&](std::int64_t begin, std::int64_t end, int) {
        const std::size_t at = each * static_cast<std::size_t>(begin);
        std::memcpy(to.data() + at, from.data() + at, each * static_cast<std::size_t>(end - begin));
      });
    });
    seconds = all.median;
  };
  const cost::OpCost work{.flops = 0, .bytes = 2.0 * static_cast<double>(from.size())};
  co_await rt.compute(work, std::move(copy), cores, "copy");
  calibration.host_bytes_per_second = work.bytes / seconds;
}

}  // namespace trireme::measure
