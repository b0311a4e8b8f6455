#include "trireme/collective/schedule.h"

#include <fmt/format.h>
#include <algorithm>
#include <limits>

#include "trireme/collective/contract.h"

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
    case Kind::kGather:
      return "gather";
    case Kind::kScatter:
      return "scatter";
    case Kind::kAllToAll:
      return "all_to_all";
    case Kind::kNeighbours:
      return "neighbors";
  }
  return "unknown";
}

std::string_view reduction_name(Reduction reduction) {
  switch (reduction) {
    case Reduction::kSum:
      return "sum";
    case Reduction::kMean:
      return "mean";
    case Reduction::kMax:
      return "max";
    case Reduction::kMin:
      return "min";
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
    case StepKind::kReadPeer:
      return "read_peer";
    case StepKind::kReadReduce:
      return "read_reduce";
    case StepKind::kScale:
      return "scale";
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
    else if (is_read(s.kind))
      out += fmt::format(" rank {} {} -> {}", s.peer, text(s.src, s.count), text(s.dst, s.count));
    else if (s.kind == StepKind::kScale)
      out += fmt::format(" {}", text(s.dst, s.count));
    else
      out += fmt::format(" {} <- {}", text(s.dst, s.count), text(s.src, s.count));
    if (s.num_deps > 0) out += fmt::format("  after {}", fmt::join(deps_of(s), " "));
    out += '\n';
  }
  return out;
}

// The mean is divided where the result lies, after everything else: its elements are read by no later step.
Result<RankProgram> build_program(const Algorithm& algorithm, const ScheduleSpec& spec, int rank) {
  TR_RETURN_IF_ERROR(check_spec(spec));
  TR_RETURN_IF_ERROR(algorithm.applicable(spec));
  TR_ASSIGN_OR_RETURN(RankProgram program, algorithm.build(spec, rank));
  const Stretch result = result_of(spec, rank);
  if (spec.reduction != Reduction::kMean || result.count == 0) return program;
  std::vector<bool> has_successor(program.steps.size());
  for (const std::uint32_t d : program.deps) has_successor[d] = true;
  Step scale;
  scale.kind = StepKind::kScale;
  scale.dst.offset = result.offset;
  scale.count = result.count;
  scale.first_dep = static_cast<std::uint32_t>(program.deps.size());
  for (std::uint32_t i = 0; i < program.steps.size(); ++i)
    if (!has_successor[i]) program.deps.push_back(i);
  const std::size_t num_deps = program.deps.size() - scale.first_dep;
  TR_CHECK(num_deps <= std::numeric_limits<std::uint16_t>::max());
  scale.num_deps = static_cast<std::uint16_t>(num_deps);
  program.steps.push_back(scale);
  return program;
}

}  // namespace trireme::collective
