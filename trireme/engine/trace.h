// trace.json: what the first steps of a start did, on every rank, for chrome://tracing or Perfetto.
//
// A process per rank. Rows: one per logical shard (its runs, and inside the last one its nodes), one per
// bucket (exchange and update), the wait for data in row 0. Where the model is cut in its depth the process
// has its coordinates in its name, and instead of shards there are virtual stages: F, B and W of every
// micro-batch (B+W where they are one), and the waits for neighbors between them. Updates are called U.
#pragma once

#include <string>
#include <vector>

#include "trireme/comm/group.h"
#include "trireme/engine/replica.h"

namespace trireme::engine {

// Collective. Every rank's spans and profiles; rank 0 gets the whole trace as text, the others nothing. The
// ranks are those of the plan's mesh.
runtime::Task<Result<std::string>> gather_trace(runtime::Runtime& rt, comm::Group& group,
                                                const plan::Plan& plan, const std::vector<StepSpan>& spans,
                                                const std::vector<exec::Profile>& shards);

}  // namespace trireme::engine
