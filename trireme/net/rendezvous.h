// How the ranks of a job find each other over TCP.
//
// Rank 0 listens at the coordinator address; every other rank connects, says which job, world, rank and epoch
// it is and where it listens itself, and gets the table of all addresses. The coordinator address is given
// ("host:port", as torchrun's MASTER_ADDR and MASTER_PORT are), or rank 0 takes a free port and writes the
// address into a file of a directory that everybody sees. docs/format_wire.md has the messages.
#pragma once

#include <memory>
#include <vector>

#include "trireme/net/factory.h"
#include "trireme/net/setup_message.h"

namespace trireme::net {

struct Met {
  std::unique_ptr<runtime::Listener> listener;  // of this rank, for connections of the others
  std::vector<runtime::HostPort> addresses;     // by rank
};

JobRank job_rank_of(const ConnectOptions& options);

// Ends at the deadline of `options` (a little later on a rank that waits for rank 0's word) with an error
// that names the ranks that did not come. Ranks of other jobs, worlds, epochs or versions, a rank that comes
// twice and strangers are refused with the reason and do not disturb the others. World 1 needs no
// coordinator.
runtime::Task<Result<Met>> meet(runtime::Runtime& rt, ConnectOptions options);

}  // namespace trireme::net
