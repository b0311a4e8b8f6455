// The parameter servers of a job: what they keep, how they update it, and the life of a rank that is nothing
// else.
#pragma once

#include <map>
#include <memory>
#include <vector>

#include "trireme/comm/mailbox.h"
#include "trireme/job/roles.h"
#include "trireme/server/client.h"
#include "trireme/server/server.h"
#include "trireme/train/distant_state.h"
#include "trireme/train/leased_worker.h"
#include "trireme/train/start.h"

namespace trireme::train {

// Server::state() of each server of a rank, under its served_number(), as KeptState keeps it.
using ServedState = std::map<int, io::NamedTensors>;

// Key b is bucket b of the plan; its parts are the bucket's parameters. Where a replica is several ranks, the
// ranks of each place have servers of their own tile's parts: of what every tile has whole, the first tile's
// servers keep it, and for the others it is no part of any key.
struct ServerPlan {
  std::vector<server::Key> keys;
  server::ServerLayout layout;
  server::LinkCoding link;  // how gradients and weights travel
};
Result<ServerPlan> plan_servers(const job::Job& job, const prepare::Prepared& prepared,
                                const job::Roles& roles, int tile);

// What a server of a tile is made of.
Result<server::ServerOptions> job_server_options(const job::Job& job, const prepare::Prepared& prepared,
                                                 const job::Roles& roles, int server, int tile);
// The number of a server's state for a tile, among all of the job (KeptState).
int served_number(const job::Roles& roles, int server, int tile);

// The servers on a rank, each for every tile. Workers of a server are replicas.
class JobServers {
 public:
  // Those that `rank` has, which may be none.
  static Result<std::unique_ptr<JobServers>> make(runtime::Runtime& rt, comm::Mailbox& mail,
                                                  const job::Job& job, const prepare::Prepared& prepared,
                                                  const job::Roles& roles, int rank);
  bool empty() const { return servers_.empty(); }
  const ServedState& state() const { return state_; }

 private:
  JobServers() = default;
  comm::Mailbox& mail_of(comm::Mailbox& all, int tile) const;
  // Per tile, letters of the ranks that have it; both empty where a replica is one rank.
  std::vector<std::unique_ptr<comm::Mailbox>> split_, places_;
  std::vector<std::unique_ptr<server::Server>> servers_;  // go before what they write with
  ServedState state_;
};

// Workers that the others outlive under this job's rule: not the replica of rank 0, nor one with a server.
std::vector<int> expendable_workers(const job::Job& job, const job::Roles& roles);
// After everybody has made what answers letters.
runtime::Task<Status> start_together(comm::Group& group, const job::Job& job, const job::Roles& roles);

// Serves until rank 0 says that all is done.
runtime::Task<Result<record::Summary>> serve(RankContext& context, comm::Group& group, job::Roles roles,
                                             const StartState& start, KeepUntilLeft& keep);

}  // namespace trireme::train
