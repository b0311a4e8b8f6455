// How the ranks of a job that were processes ended, in words.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "trireme/job/roles.h"
#include "trireme/launch/launch.h"
#include "trireme/launch/remote.h"
#include "trireme/record/run_folder.h"

namespace trireme::start {

// By rank: it may be lost while the others go on.
std::vector<bool> expendable_ranks(const job::Job& job);

// On this host: what each rank said or how it ended; ranks that say the same share a line. `folder` has their
// log/, with what they left there.
runtime::Task<Status> describe_ranks(runtime::Runtime& rt, const record::RunFolder& folder,
                                     const job::Roles& roles, const std::vector<launch::RankExit>& exits,
                                     TimeNs grace);
// The same of a training job, and what to do next.
runtime::Task<Status> describe_failure(runtime::Runtime& rt, const record::RunFolder& folder,
                                       const job::Roles& roles, const std::vector<launch::RankExit>& exits,
                                       TimeNs grace);

// The rank finished, or stopped because it was asked to.
bool ended_well(const launch::RankExit& exit);
// On other hosts, `place` says by rank on which: ranks of a host that say the same share a line.
Status describe_remote_failure(const launch::RemoteSpec& spec, const job::Roles& roles,
                               const std::vector<int>& place, const std::vector<launch::RankExit>& exits);

// A line for each that was lost while the job went on. Nothing: somebody failed whom the job cannot spare.
std::optional<std::vector<std::string>> lost_ranks(const std::vector<launch::RankExit>& exits,
                                                   const std::vector<bool>& expendable, TimeNs grace);

}  // namespace trireme::start
