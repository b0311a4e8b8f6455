// Tasks of Slurm's srun.
#include <algorithm>

#include "trireme/launch/nodelist.h"
#include "trireme/launch/variables.h"

namespace trireme::launch {
namespace {

// A step of old variables does not say how many tasks each host has: then at least as many as this one's
// number tells.
Result<int> tasks_here(const Lookup& get, const RankIdentity& id, int num_nodes) {
  if (id.one_host) return id.world;
  const char* tasks = get("SLURM_STEP_TASKS_PER_NODE");
  if (tasks == nullptr || get("SLURM_NODEID") == nullptr)
    return std::max(id.local_rank + 1, (id.world + num_nodes - 1) / num_nodes);
  TR_ASSIGN_OR_RETURN(const int node, read_number(get, "SLURM_NODEID"));
  return tasks_of_node(tasks, node);
}

}  // namespace

Result<std::optional<RankIdentity>> read_slurm(const Lookup& get) {
  // A batch script has SLURM_PROCID 0 too, but is no task of a step: what it runs was started by nobody.
  if (first_set(get, {"ENVIRONMENT"}) == "BATCH" && first_set(get, {"SLURM_STEP_ID", "SLURM_STEPID"}).empty())
    return std::optional<RankIdentity>();
  if (get("SLURM_PROCID") == nullptr) return std::optional<RankIdentity>();  // an allocation, not a task
  RankIdentity id;
  const char* world = get("SLURM_STEP_NUM_TASKS") != nullptr ? "SLURM_STEP_NUM_TASKS" : "SLURM_NTASKS";
  TR_RETURN_IF_ERROR(read_rank_and_world(get, "SLURM_PROCID", world, id).status());
  const std::string nodes = first_set(get, {"SLURM_STEP_NODELIST", "SLURM_JOB_NODELIST", "SLURM_NODELIST"});
  int num_nodes = 1;
  if (!nodes.empty()) {
    TR_ASSIGN_OR_RETURN(const Nodelist list, parse_nodelist(nodes));
    num_nodes = list.count;
  }
  id.one_host = num_nodes == 1;
  TR_ASSIGN_OR_RETURN(id.local_rank, read_number_or(get, "SLURM_LOCALID", id.one_host ? id.rank : 0));
  TR_ASSIGN_OR_RETURN(id.local_world, tasks_here(get, id, num_nodes));
  TR_ASSIGN_OR_RETURN(id.host_cores, read_number_or(get, "SLURM_CPUS_ON_NODE", 0));
  if (id.one_host) {
    const std::string job = first_set(get, {"SLURM_JOB_ID", "SLURM_JOBID"});
    const std::string step = first_set(get, {"SLURM_STEP_ID", "SLURM_STEPID"});
    id.rendezvous =
        rendezvous_of(get, "slurm", step.empty() || job.empty() ? job : fmt::format("{}.{}", job, step));
  }
  TR_ASSIGN_OR_RETURN(id.coordinator, slurm_coordinator(get));
  return std::optional<RankIdentity>(id);
}

}  // namespace trireme::launch
