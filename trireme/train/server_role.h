// The parameter servers of a job: what they keep, how they update it, and the life of a rank that is nothing
// else.
#pragma once

#include "trireme/comm/mailbox.h"
#include "trireme/job/roles.h"
#include "trireme/server/client.h"
#include "trireme/server/server.h"
#include "trireme/train/leased_worker.h"
#include "trireme/train/start.h"

namespace trireme::train {

// Key b is bucket b of the plan; its parts are the bucket's parameters.
struct ServerPlan {
  std::vector<server::Key> keys;
  server::ServerLayout layout;
  server::LinkCoding link;  // how gradients and weights travel
};
Result<ServerPlan> plan_servers(const job::Job& job, const prepare::Prepared& prepared,
                                const job::Roles& roles);

// Workers of the server are the peers of `mail`, which are replicas.
Result<std::unique_ptr<server::Server>> make_job_server(runtime::Runtime& rt, comm::Mailbox& mail,
                                                        const job::Job& job,
                                                        const prepare::Prepared& prepared,
                                                        const job::Roles& roles, int server);

// What make_job_server() makes a server of.
Result<server::ServerOptions> job_server_options(const job::Job& job, const prepare::Prepared& prepared,
                                                 const job::Roles& roles, int server);

// Workers that the others outlive under this job's rule: not the replica of rank 0, nor one with a server.
std::vector<int> expendable_workers(const job::Job& job, const job::Roles& roles);
// After everybody has made what answers letters.
runtime::Task<Status> start_together(comm::Group& group, const job::Job& job, const job::Roles& roles);

// Serves until rank 0 says that all is done.
runtime::Task<Result<record::Summary>> serve(RankContext& context, comm::Group& group, job::Roles roles,
                                             const StartState& start, KeepUntilLeft& keep);

}  // namespace trireme::train
