#include "trireme/engine/trace.h"

#include "trireme/engine/share_text.h"
#include "trireme/io/trace.h"
#include "trireme/plan/slots.h"

namespace trireme::engine {
namespace {

// The row of a span. Where the model is cut in its depth rows below the buckets are virtual stages, and the
// data of the others is waited for in row 0.
std::string row_name(const plan::Plan& plan, int rank, const StepSpan& span) {
  const bool is_bucket = span.track >= kFirstBucketTrack;
  const std::string own = is_bucket ? fmt::format("bucket {}", span.track - kFirstBucketTrack)
                                    : fmt::format("shard {}", span.track);
  if (plan.segments == 1) return own;
  const int stage = plan.mesh().coordinate(rank, parallel::kStageAxis);
  if (is_bucket) return fmt::format("stage {}, {}", stage, own);
  if (span.track % plan.cell_owners().stages() != stage) return fmt::format("stage {}, data", stage);
  return plan.virtual_stages > 1 ? fmt::format("stage {}, virtual stage {}", stage, span.track)
                                 : fmt::format("stage {}", stage);
}

std::string own_trace(const runtime::Runtime& rt, const plan::Plan& plan, int rank,
                      const std::vector<StepSpan>& spans, const std::vector<exec::Profile>& shards) {
  io::RankTrace trace;
  trace.rank = rank;
  if (plan.segments > 1) trace.name = plan.mesh().rank_text(rank);
  trace.clock_offset_ns = rt.unix_time_ns() - rt.now();
  for (const StepSpan& s : spans) {
    trace.spans.push_back({s.name, s.category, s.begin, s.end, s.track, {}});
    trace.thread_names[s.track] = row_name(plan, rank, s);
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
                                                const plan::Plan& plan, const std::vector<StepSpan>& spans,
                                                const std::vector<exec::Profile>& shards) {
  std::vector<std::string> all;
  for (int r = 0; r < group.world(); ++r) {
    TextCall call{.root = r,
                  .step = static_cast<std::uint32_t>(r),
                  .size_slot = plan::kSlotTraceSize,
                  .slot = plan::kSlotTrace,
                  .label = "trace"};
    std::string mine;
    if (r == group.rank()) mine = own_trace(rt, plan, r, spans, shards);
    Result<std::string> text = co_await broadcast_text(rt, group, call, std::move(mine));
    if (!text.ok()) co_return text.status();
    if (group.rank() == 0) all.push_back(std::move(*text));
  }
  if (group.rank() != 0) co_return std::string();
  co_return io::join_traces(all);
}

}  // namespace trireme::engine
