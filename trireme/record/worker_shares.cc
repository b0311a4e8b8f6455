#include "trireme/record/worker_shares.h"
#include "trireme/plan/slots.h"

#include <algorithm>

namespace trireme::record {
namespace {

constexpr std::size_t kNumbers = 8;  // of a share, before its ages
constexpr std::size_t kAges = 64;    // older ones count as the oldest of these
constexpr std::size_t kFields = kNumbers + kAges;

std::vector<double> numbers_of(const WorkerShare& s) {
  std::vector<double> n{static_cast<double>(s.steps),
                        static_cast<double>(s.samples),
                        s.compute_seconds,
                        s.exposed_seconds,
                        s.data_seconds,
                        s.bytes_sent,
                        s.peak_bytes,
                        s.predicted_bytes};
  n.resize(kFields, 0.0);
  for (const auto& [age, count] : s.staleness)
    n[kNumbers + std::min(static_cast<std::size_t>(age), kAges - 1)] += static_cast<double>(count);
  return n;
}

WorkerShare share_of(int worker, const double* n) {
  WorkerShare s;
  s.worker = worker;
  s.steps = static_cast<std::int64_t>(n[0]);
  s.samples = static_cast<std::int64_t>(n[1]);
  s.compute_seconds = n[2];
  s.exposed_seconds = n[3];
  s.data_seconds = n[4];
  s.bytes_sent = n[5];
  s.peak_bytes = n[6];
  s.predicted_bytes = n[7];
  for (std::size_t age = 0; age < kAges; ++age)
    if (const auto count = static_cast<std::int64_t>(n[kNumbers + age]); count > 0)
      s.staleness[static_cast<std::int64_t>(age)] = count;
  return s;
}

}  // namespace

runtime::Task<Result<std::vector<WorkerShare>>> gather_shares(runtime::Runtime& rt, comm::Group& group,
                                                              WorkerShare mine) {
  std::vector<WorkerShare> shares;
  if (rt.is_phantom()) co_return shares;
  const auto n = static_cast<std::int64_t>(kFields);
  const std::vector<double> numbers = numbers_of(mine);
  const std::vector<double> zeros(kFields * static_cast<std::size_t>(group.world()), 0.0);
  const Tensor block = Tensor::from<double>(numbers, {n});
  const Tensor all = Tensor::from<double>(zeros, {n * group.world()});
  comm::Call call;
  call.slot = plan::kSlotShares;
  call.label = "shares";
  const Status status = co_await group.allgather(std::move(call), block, all);
  if (!status.ok()) co_return status;
  for (int r = 0; r < group.world(); ++r) shares.push_back(share_of(r, all.data<double>() + r * n));
  attribute_waiting(shares);
  co_return shares;
}

std::vector<WorkerShare> by_worker(const std::vector<WorkerShare>& shares, const std::vector<int>& workers) {
  std::vector<WorkerShare> out;
  for (const WorkerShare& s : shares) {
    const int worker = workers[static_cast<std::size_t>(s.worker)];
    if (out.empty() || out.back().worker != worker) {
      out.push_back(s);
      out.back().worker = worker;
      continue;
    }
    WorkerShare& all = out.back();
    all.compute_seconds = std::max(all.compute_seconds, s.compute_seconds);
    all.exposed_seconds = std::max(all.exposed_seconds, s.exposed_seconds);
    all.data_seconds = std::max(all.data_seconds, s.data_seconds);
    all.bytes_sent += s.bytes_sent;
    all.peak_bytes = std::max(all.peak_bytes, s.peak_bytes);  // of one process
    all.predicted_bytes += s.predicted_bytes;
  }
  attribute_waiting(out);
  return out;
}

}  // namespace trireme::record
