// Reading numbers and job ids from variables; shared by the launchers. Internal to launch.
#pragma once

#include <initializer_list>

#include "trireme/launch/environment.h"

namespace trireme::launch {

// The rows of the table, one file each.
Result<std::optional<RankIdentity>> read_own(const Lookup& get);
Result<std::optional<RankIdentity>> read_torchrun(const Lookup& get);
Result<std::optional<RankIdentity>> read_open_mpi(const Lookup& get);
Result<std::optional<RankIdentity>> read_pmi(const Lookup& get);
Result<std::optional<RankIdentity>> read_slurm(const Lookup& get);

Result<int> read_number(const Lookup& get, const char* name);
Result<int> read_number_or(const Lookup& get, const char* name, int otherwise);
// Rank and world, which belong together: false when neither is set, an error when one is, or when the rank is
// not below the world.
Result<bool> read_rank_and_world(const Lookup& get, const char* rank, const char* world, RankIdentity& id);
// The first of `names` that is set and not empty; "" when none is.
std::string first_set(const Lookup& get, std::initializer_list<const char*> names);

// A directory below $TMPDIR or /tmp that is the same for all ranks of a job and of no other. Empty for an
// empty `job`.
std::string rendezvous_of(const Lookup& get, const char* launcher, std::string_view job);
// A port above 20000, the same for all ranks of a job.
int port_of(std::string_view job);

}  // namespace trireme::launch
