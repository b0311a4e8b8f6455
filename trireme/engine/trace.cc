#include "trireme/engine/trace.h"

#include "trireme/engine/share_text.h"
#include "trireme/io/trace.h"
#include "trireme/plan/slots.h"

namespace trireme::engine {
namespace {

std::string own_trace(const runtime::Runtime& rt, int rank, const std::vector<StepSpan>& spans,
                      const std::vector<exec::Profile>& shards) {
  io::RankTrace trace;
  trace.rank = rank;
  trace.clock_offset_ns = rt.unix_time_ns() - rt.now();
  for (const StepSpan& s : spans) {
    trace.spans.push_back({s.name, s.category, s.begin, s.end, s.track, {}});
    if (s.track < kFirstBucketTrack)
      trace.thread_names[s.track] = fmt::format("shard {}", s.track);
    else
      trace.thread_names[s.track] = fmt::format("bucket {}", s.track - kFirstBucketTrack);
  }
  for (std::size_t i = 0; i < shards.size(); ++i)
    for (const exec::NodeProfile& n : shards[i].nodes) {
      Json details = {{"op", n.op}, {"kernel", n.kernel}, {"gflops", n.gflops()}};
      trace.spans.push_back({n.name, "node", n.begin_ns, n.end_ns, static_cast<int>(i), std::move(details)});
    }
  return io::merged_trace(std::span(&trace, 1));
}

}  // namespace

runtime::Task<Result<std::string>> gather_trace(runtime::Runtime& rt, comm::Group& group,
                                                const std::vector<StepSpan>& spans,
                                                const std::vector<exec::Profile>& shards) {
  std::vector<std::string> all;
  for (int r = 0; r < group.world(); ++r) {
    TextCall call{.root = r,
                  .step = static_cast<std::uint32_t>(r),
                  .size_slot = plan::kSlotTraceSize,
                  .slot = plan::kSlotTrace,
                  .label = "trace"};
    std::string mine;
    if (r == group.rank()) mine = own_trace(rt, r, spans, shards);
    Result<std::string> text = co_await broadcast_text(rt, group, call, std::move(mine));
    if (!text.ok()) co_return text.status();
    if (group.rank() == 0) all.push_back(std::move(*text));
  }
  if (group.rank() != 0) co_return std::string();
  co_return io::join_traces(all);
}

}  // namespace trireme::engine
