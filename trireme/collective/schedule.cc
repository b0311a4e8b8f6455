#include "trireme/collective/schedule.h"

#include <algorithm>
#include <map>
#include <tuple>

namespace trireme::collective {

std::string_view kind_name(Kind kind) {
  switch (kind) {
    case Kind::kAllreduce:
      return "allreduce";
    case Kind::kReduce:
      return "reduce";
    case Kind::kBroadcast:
      return "broadcast";
    case Kind::kAllgather:
      return "allgather";
    case Kind::kReduceScatter:
      return "reduce_scatter";
    case Kind::kBarrier:
      return "barrier";
  }
  return "unknown";
}

std::string_view step_name(StepKind kind) {
  switch (kind) {
    case StepKind::kSend:
      return "send";
    case StepKind::kRecv:
      return "recv";
    case StepKind::kCopy:
      return "copy";
    case StepKind::kReduce:
      return "reduce";
    case StepKind::kReduceLeft:
      return "reduce_left";
    case StepKind::kRecvReduce:
      return "recv_reduce";
    case StepKind::kRecvReduceLeft:
      return "recv_reduce_left";
  }
  return "unknown";
}

std::uint64_t RankProgram::bytes_sent(std::int32_t elem_bytes) const {
  std::int64_t elems = 0;
  for (const Step& s : steps)
    if (s.kind == StepKind::kSend) elems += s.count;
  return static_cast<std::uint64_t>(elems * elem_bytes);
}

std::string RankProgram::to_text() const {
  const auto text = [](const Region& r, std::int64_t count) {
    const std::int64_t offset = r.offset;
    return fmt::format("b{}[{}, {})", static_cast<int>(r.buffer), offset, offset + count);
  };
  std::string out = fmt::format("rank {}: {} steps, {} partials\n", rank, steps.size(), num_partials);
  for (std::size_t i = 0; i < steps.size(); ++i) {
    const Step& s = steps[i];
    out += fmt::format("{:4} {:16}", i, step_name(s.kind));
    if (s.kind == StepKind::kSend)
      out += fmt::format(" {} -> rank {} part {}", text(s.src, s.count), s.peer, s.part);
    else if (is_recv(s.kind))
      out += fmt::format(" rank {} part {} -> {}", s.peer, s.part, text(s.dst, s.count));
    else
      out += fmt::format(" {} <- {}", text(s.dst, s.count), text(s.src, s.count));
    if (s.num_deps > 0) out += fmt::format("  after {}", fmt::join(deps_of(s), " "));
    out += '\n';
  }
  return out;
}

TimeNs price_time(const Price& price, const cost::LinkModel& link, const cost::MachineModel& machine) {
  TimeNs time = price.rounds * (link.latency_ns + link.message_overhead_ns) +
                cost::transfer_time(static_cast<std::uint64_t>(price.bytes_per_rank), link);
  // An addition reads both operands and writes one; f32 elements.
  if (price.reduce_bytes_per_rank > 0)
    time +=
        cost::compute_time({price.reduce_bytes_per_rank / 4, 3 * price.reduce_bytes_per_rank}, machine, 1);
  return time;
}

// Depth of a step: messages on the longest chain that ends with it. Steps run as soon as their dependencies
// and, for a recv, the matching send are known.
Price measure_programs(std::span<const RankProgram> programs, std::int32_t elem_bytes) {
  using Key = std::tuple<int, int, std::uint32_t>;  // from, to, part
  Price price;
  std::map<Key, std::int64_t> sent;
  std::vector<std::vector<std::int64_t>> depth(programs.size());
  for (std::size_t r = 0; r < programs.size(); ++r) {
    depth[r].assign(programs[r].steps.size(), -1);
    std::int64_t reduced = 0;
    for (const Step& s : programs[r].steps) reduced += is_reduce(s.kind) ? s.count : 0;
    price.bytes_per_rank =
        std::max(price.bytes_per_rank, static_cast<double>(programs[r].bytes_sent(elem_bytes)));
    price.reduce_bytes_per_rank =
        std::max(price.reduce_bytes_per_rank, static_cast<double>(reduced * elem_bytes));
  }
  for (bool progress = true; progress;) {
    progress = false;
    for (std::size_t r = 0; r < programs.size(); ++r) {
      const RankProgram& program = programs[r];
      for (std::size_t i = 0; i < program.steps.size(); ++i) {
        const Step& s = program.steps[i];
        if (depth[r][i] >= 0) continue;
        std::int64_t d = 0;
        bool ready = true;
        for (const std::uint32_t dep : program.deps_of(s)) {
          ready = ready && depth[r][dep] >= 0;
          d = std::max(d, depth[r][dep]);
        }
        if (is_recv(s.kind)) {
          const auto it = sent.find({s.peer, static_cast<int>(r), s.part});
          ready = ready && it != sent.end();
          if (ready) d = std::max(d, it->second + 1);
        }
        if (!ready) continue;
        depth[r][i] = d;
        if (s.kind == StepKind::kSend) sent[{static_cast<int>(r), s.peer, s.part}] = d;
        price.rounds = std::max(price.rounds, d);
        progress = true;
      }
    }
  }
  return price;
}

}  // namespace trireme::collective
