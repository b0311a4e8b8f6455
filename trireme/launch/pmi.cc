// Ranks of a launcher that speaks PMI (MPICH's mpiexec, Intel MPI).
#include "trireme/launch/nodelist.h"
#include "trireme/launch/variables.h"

namespace trireme::launch {

Result<std::optional<RankIdentity>> read_pmi(const Lookup& get) {
  RankIdentity id;
  TR_ASSIGN_OR_RETURN(const bool launched, read_rank_and_world(get, "PMI_RANK", "PMI_SIZE", id));
  if (!launched) return std::optional<RankIdentity>();
  TR_ASSIGN_OR_RETURN(id.local_world, read_number_or(get, "MPI_LOCALNRANKS", id.world));
  id.one_host = id.local_world == id.world;
  TR_ASSIGN_OR_RETURN(id.local_rank, read_number_or(get, "MPI_LOCALRANKID", id.one_host ? id.rank : 0));
  const std::string job =
      first_set(get, {"PMI_JOBID", "PMIX_NAMESPACE", "SLURM_JOB_ID", "PBS_JOBID", "LSB_JOBID"});
  if (id.one_host) {
    id.rendezvous = rendezvous_of(get, "pmi", job);
    return std::optional<RankIdentity>(id);
  }
  TR_ASSIGN_OR_RETURN(id.coordinator, slurm_coordinator(get));
  return std::optional<RankIdentity>(id);
}

}  // namespace trireme::launch
