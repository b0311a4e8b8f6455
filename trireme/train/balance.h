// Work that follows the speed of replicas: who owns which logical shards, decided anew between steps. The
// bits of the result do not depend on it.
#pragma once

#include "trireme/comm/group.h"
#include "trireme/plan/balance.h"

namespace trireme::train {

inline constexpr std::int64_t kBalanceSteps = 16;  // between two looks
inline constexpr double kWorthwhile = 1.05;        // how much longer a step must take now

// All ranks tell each other their speeds; the same answer everywhere: new owners, or none where the present
// ones are good enough. `step` names the messages, the group has the ranks of the mesh.
runtime::Task<Result<std::vector<collective::LeafRun>>> better_owners(
    runtime::Runtime& rt, comm::Group& group, std::int64_t step, plan::WorkerSpeed own,
    const parallel::Mesh& mesh, std::vector<collective::LeafRun> owners, std::int32_t num_shards);

// What the ranks compute in the same time, in relation to the first one, as a short piece of work shows; the
// same answer everywhere. Ranks of one host share its cores, so they are taken to be alike, except in virtual
// time. None where no rank is much faster than another.
runtime::Task<Result<std::vector<double>>> measure_speeds(runtime::Runtime& rt, comm::Group& group);

}  // namespace trireme::train
