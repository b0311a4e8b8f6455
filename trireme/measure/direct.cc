#include "trireme/measure/direct.h"

#include <algorithm>

#include "trireme/comm/group.h"

namespace trireme::measure {
namespace {

using runtime::Task;

struct Sums {
  std::vector<std::uint64_t> sizes;
  int repeats = 0, calls = 0;  // a repeat is the median of its calls
};
Sums sums_of(bool quick) {
  if (quick) return {{1 << 10, 256 << 10}, 2, 3};
  return {{1 << 10, 16 << 10, 128 << 10, 1 << 20, 4 << 20, 16 << 20}, 5, 5};
}

struct FoundSums {
  bool has_memory = false;
  std::vector<std::vector<double>> seconds;  // per size
};

Task<Status> add_all(runtime::Runtime& rt, comm::Group& group, const Sums& sums, FoundSums& found) {
  found.seconds.resize(sums.sizes.size());
  std::vector<Tensor> tensors;
  for (const std::uint64_t bytes : sums.sizes) {
    const TensorType type{DType::kF32, Shape{static_cast<std::int64_t>(bytes / 4)}};
    TR_CO_ASSIGN_OR_RETURN(Tensor data, group.allocate(type));
    tensors.push_back(std::move(data));
  }
  comm::Call call;
  call.label = "calibration";
  for (int repeat = 0; repeat <= sums.repeats; ++repeat)
    for (std::size_t s = 0; s < tensors.size(); ++s) {
      std::vector<double> calls;
      for (int c = 0; c < sums.calls; ++c) {
        const auto values = tensors[s].values<float>();
        std::fill(values.begin(), values.end(), 1.0F);
        ++call.step;
        const Status met = co_await group.barrier(call);
        if (!met.ok()) co_return met;
        ++call.step;
        const TimeNs start = rt.now();
        const Status added = co_await group.allreduce(call, tensors[s]);
        if (!added.ok()) co_return added;
        calls.push_back(to_seconds(rt.now() - start));
      }
      if (repeat > 0) found.seconds[s].push_back(summarise_repeats(calls).median);
    }
  co_return Status();
}

Result<FoundSums> add_in_pairs(const LinkMeasurement& what, const Sums& sums, int meeting) {
  FoundSums found[2];
  const RankBody body = [&](runtime::Runtime& rt, std::unique_ptr<net::Transport> transport,
                            int rank) -> Task<Status> {
    found[rank].has_memory = transport->capabilities().peer_memory;
    if (!found[rank].has_memory) co_return Status();
    comm::GroupOptions options;
    options.spin_ns = kLongSpin;
    TR_CO_ASSIGN_OR_RETURN(const auto group, comm::make_group(rt, std::move(transport), options));
    const Status added = co_await add_all(rt, *group, sums, found[rank]);
    const Status left = co_await group->leave();
    co_return added.ok() ? left : added;
  };
  TR_RETURN_IF_ERROR(run_pair(what, meeting, kLongSpin, body));
  return std::move(found[0]);
}

}  // namespace

Result<std::optional<cost::TransportCalibration>> measure_direct(const LinkMeasurement& what,
                                                                 double reduce_seconds_per_byte) {
  const Sums sums = sums_of(what.quick);
  cost::TransportCalibration t;
  t.transport = kDirectName;
  for (int meeting = 0; meeting < kMeetings; ++meeting) {
    TR_ASSIGN_OR_RETURN(const FoundSums found, add_in_pairs(what, sums, meeting));
    if (!found.has_memory) return std::optional<cost::TransportCalibration>();
    for (std::size_t s = 0; s < sums.sizes.size(); ++s) {
      const Repeats r = summarise_repeats(found.seconds[s]);
      const cost::TimedSize now{sums.sizes[s], r.median, r.spread};
      if (meeting == 0)
        t.measured.push_back(now);
      else if (now.seconds < t.measured[s].seconds)
        t.measured[s] = now;
    }
  }
  std::vector<double> spreads;
  for (const cost::TimedSize& m : t.measured) spreads.push_back(m.spread);
  TR_ASSIGN_OR_RETURN(const cost::LineFit fit, cost::fit_line(t.measured));
  t.fit_error = fit.median_error;
  t.spread = summarise_repeats(spreads).median;
  t.link.latency_ns = from_seconds(fit.fixed / 2);
  t.link.message_overhead_ns = 0;
  t.blocking_latency_ns = t.link.latency_ns;
  // On a busy machine small sums may seem to take as long as large ones. Then the whole time of the largest
  // one is taken: links seem slower than they are, never free.
  const cost::TimedSize& largest = t.measured.back();
  const double per_byte =
      fit.per_byte > 0 ? fit.per_byte : largest.seconds / static_cast<double>(largest.bytes);
  // Each of two ranks adds half of the vector and copies the other half.
  const double copies = std::max(per_byte - 0.5 * reduce_seconds_per_byte, 0.1 * per_byte);
  if (!(copies > 0)) return error(Code::kInternal, "[calibrate] sums through shared memory take no time");
  t.peer_bytes_per_second = 0.5 / copies;
  t.link.bytes_per_second = 1 / per_byte;
  return std::optional<cost::TransportCalibration>(std::move(t));
}

}  // namespace trireme::measure
