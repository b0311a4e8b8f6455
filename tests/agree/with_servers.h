// The quadratic trainer with real servers on ranks of their own.
#pragma once

#include "tests/agree/quadratic.h"
#include "trireme/agree/mechanism/server_updates.h"
#include "trireme/server/server.h"

namespace trireme::agree::testing {

// What the servers counted, by server, when they ended.
using Counts = std::vector<server::ServerStats>;

// w <- w - lr g
Result<server::UpdateSpec> sgd(std::span<const server::StoredPart> parts);

// Gives `job` servers for its rule, which run plain SGD where the rule has no update of its own. Buckets of
// more than one element are cut over all servers. `counts` outlives the run; may be null. To be called when
// everything else of the job is set.
void add_servers(QuadraticJob& job, int num_servers, Counts* counts = nullptr);

}  // namespace trireme::agree::testing
