// Ranks of Open MPI's mpirun.
#include "trireme/launch/nodelist.h"
#include "trireme/launch/variables.h"

namespace trireme::launch {

Result<std::optional<RankIdentity>> read_open_mpi(const Lookup& get) {
  RankIdentity id;
  TR_ASSIGN_OR_RETURN(const bool launched,
                      read_rank_and_world(get, "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", id));
  if (!launched) return std::optional<RankIdentity>();
  TR_ASSIGN_OR_RETURN(id.local_world, read_number_or(get, "OMPI_COMM_WORLD_LOCAL_SIZE", id.world));
  id.one_host = id.local_world == id.world;
  TR_ASSIGN_OR_RETURN(id.local_rank,
                      read_number_or(get, "OMPI_COMM_WORLD_LOCAL_RANK", id.one_host ? id.rank : 0));
  const std::string job = first_set(get, {"OMPI_MCA_ess_base_jobid", "PMIX_NAMESPACE", "SLURM_JOB_ID"});
  if (id.one_host) {
    id.rendezvous = rendezvous_of(get, "openmpi", job);
    return std::optional<RankIdentity>(id);
  }
  // Only a batch system tells hosts: Open MPI places rank 0 on the first of its list.
  TR_ASSIGN_OR_RETURN(id.coordinator, slurm_coordinator(get));
  return std::optional<RankIdentity>(id);
}

}  // namespace trireme::launch
