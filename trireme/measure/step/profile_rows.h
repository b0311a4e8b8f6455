// Where the time of a step went, summed over nodes.
#pragma once

#include "trireme/base/json.h"
#include "trireme/exec/memory_report.h"
#include "trireme/exec/profile.h"
#include "trireme/graph/graph.h"

namespace trireme::measure {

double per_step_ms(TimeNs total, std::int64_t steps);

// What the nodes of one op, forms and kernel took together, slowest first. `before`: the same profile when
// the steps began.
Json profile_by_op(const graph::Graph& graph, const exec::Profile& before, const exec::Profile& after,
                   std::int64_t steps);
// The same for nodes of one op and equal types; the first `most`.
Json profile_by_kind(const graph::Graph& graph, const exec::Profile& before, const exec::Profile& after,
                     std::int64_t steps, std::size_t most);

// What a training step has in memory beside the optimiser's state, in bytes.
Json profile_memory(const exec::MemoryReport& memory);

}  // namespace trireme::measure
