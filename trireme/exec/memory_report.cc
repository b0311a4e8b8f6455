#include "trireme/exec/memory_report.h"

#include <algorithm>

#include "trireme/base/units.h"
#include "trireme/exec/compiled.h"

namespace trireme::exec {
namespace {

std::int64_t bytes_of(const graph::Graph& graph, const std::vector<External>& externals) {
  std::int64_t sum = 0;
  for (const External& e : externals) sum += static_cast<std::int64_t>(graph.type(e.value).num_bytes());
  return sum;
}

}  // namespace

MemoryReport CompiledPlan::memory() const {
  MemoryReport report;
  report.variables_bytes = bytes_of(program, variables);
  report.feeds_bytes = bytes_of(program, inputs);
  report.bound_bytes = bytes_of(program, bound);
  report.scratch_bytes = places.scratch_bytes;
  if (!phases.of_node.empty()) {
    report.values_bytes = places.arena_bytes;
    return report;
  }
  // The split of the arena: planned again as if no kernel had a workspace.
  const Result<graph::MemoryResult> bare = graph::plan_memory(
      program,
      {.pinned = pinned, .workspace_bytes = {}, .strand = part.strand_of, .strand_order = part.lane_order});
  TR_CHECK(bare.ok(), "{}", bare.status().to_string());
  report.values_bytes = std::min(bare->plan.arena_bytes, places.arena_bytes);
  report.workspace_bytes = places.arena_bytes - report.values_bytes;
  return report;
}

std::string MemoryReport::to_text() const {
  std::string text;
  const auto line = [&text](const char* what, std::int64_t bytes) {
    text += fmt::format("{:<10} {:>14} bytes  {}\n", what, bytes,
                        format_bytes(static_cast<std::uint64_t>(bytes)));
  };
  line("values", values_bytes);
  line("workspace", workspace_bytes);
  if (scratch_bytes > 0) line("scratch", scratch_bytes);
  line("variables", variables_bytes);
  line("feeds", feeds_bytes);
  line("bound", bound_bytes);
  line("results", results_bytes);
  line("total", total_bytes());
  return text;
}

}  // namespace trireme::exec
