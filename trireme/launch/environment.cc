#include "trireme/launch/environment.h"

#include <array>
#include <charconv>
#include <cstring>

#include "trireme/launch/variables.h"

namespace trireme::launch {
namespace {

constexpr std::array kLaunchers{
    Launcher{"trireme",
             "own launcher: TRIREME_RANK, TRIREME_WORLD and TRIREME_RENDEZVOUS or TRIREME_COORDINATOR",
             read_own},
    Launcher{"torchrun", "RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT, LOCAL_RANK", read_torchrun},
    Launcher{"openmpi", "mpirun of Open MPI: OMPI_COMM_WORLD_RANK, _SIZE, _LOCAL_RANK, _LOCAL_SIZE",
             read_open_mpi},
    Launcher{"pmi", "mpiexec of MPICH and its kin: PMI_RANK, PMI_SIZE", read_pmi},
    Launcher{"slurm", "srun: SLURM_PROCID, SLURM_NTASKS, SLURM_LOCALID, SLURM_JOB_NODELIST", read_slurm},
};

}  // namespace

std::span<const Launcher> launcher_table() { return kLaunchers; }

Result<int> read_number(const Lookup& get, const char* name) {
  const char* text = get(name);
  if (text == nullptr) return error(Code::kInvalid, "[launch] {} is not set", name);
  int value = 0;
  const char* end = text + std::strlen(text);
  const auto [at, failure] = std::from_chars(text, end, value);
  if (failure != std::errc() || at != end)
    return error(Code::kInvalid, "[launch] {} is not a number: got '{}'", name, text);
  return value;
}

Result<int> read_number_or(const Lookup& get, const char* name, int otherwise) {
  return get(name) == nullptr ? Result<int>(otherwise) : read_number(get, name);
}

Result<bool> read_rank_and_world(const Lookup& get, const char* rank, const char* world, RankIdentity& id) {
  if (get(rank) == nullptr && get(world) == nullptr) return false;
  if (get(rank) == nullptr || get(world) == nullptr)
    return error(Code::kInvalid, "[launch] {} and {} belong together: got only {}; set both or none", rank,
                 world, get(rank) == nullptr ? world : rank);
  TR_ASSIGN_OR_RETURN(id.rank, read_number(get, rank));
  TR_ASSIGN_OR_RETURN(id.world, read_number(get, world));
  if (id.rank < 0 || id.rank >= id.world)
    return error(Code::kInvalid, "[launch] {} is {}, expected 0 to {}, since {} is {}", rank, id.rank,
                 id.world - 1, world, id.world);
  return true;
}

std::string first_set(const Lookup& get, std::initializer_list<const char*> names) {
  for (const char* name : names)
    if (const char* value = get(name); value != nullptr && *value != '\0') return value;
  return {};
}

std::string rendezvous_of(const Lookup& get, const char* launcher, std::string_view job) {
  if (job.empty()) return {};
  std::string name(job);
  for (char& c : name)
    if (!((c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '.' || c == '-'))
      c = '_';
  std::string below = first_set(get, {"TMPDIR"});
  return fmt::format("{}/trireme-{}-{}", below.empty() ? "/tmp" : below, launcher, name);
}

int port_of(std::string_view job) {
  std::uint32_t mixed = 2166136261U;  // FNV-1a
  for (const char c : job) mixed = (mixed ^ static_cast<unsigned char>(c)) * 16777619U;
  return 20000 + static_cast<int>(mixed % 10000U);
}

Result<std::optional<RankIdentity>> rank_from_environment(const Lookup& get) {
  for (const Launcher& launcher : kLaunchers) {
    TR_ASSIGN_OR_RETURN(std::optional<RankIdentity> id, launcher.read(get));
    if (!id) continue;
    id->launcher = launcher.name;
    if (id->local_rank < 0 || id->local_world < 1 || id->local_rank >= id->local_world ||
        id->local_world > id->world)
      return error(Code::kInvalid,
                   "[launch] the variables of {} contradict each other: local rank {} of {} on this host, "
                   "rank {} of {}; start the job anew",
                   launcher.name, id->local_rank, id->local_world, id->rank, id->world);
    if (const std::string given = first_set(get, {"TRIREME_RENDEZVOUS"}); !given.empty()) {
      id->rendezvous = given;
      id->rendezvous_given = true;
    }
    if (const std::string given = first_set(get, {"TRIREME_COORDINATOR"}); !given.empty()) {
      id->coordinator = given;
      id->coordinator_given = true;
    }
    return id;
  }
  return std::optional<RankIdentity>();
}

Result<std::string> choose_transport(const RankIdentity& id, std::string_view wanted) {
  const std::string name(wanted == "auto" ? (id.one_host ? "shm" : "tcp") : wanted);
  if (id.world == 1) return name == "mpi" ? name : std::string("inproc");
  if (name == "inproc")
    return error(Code::kInvalid,
                 "[launch] transport 'inproc' joins threads of one process, but {} started {} processes; use "
                 "shm, tcp or mpi",
                 id.launcher, id.world);
  if (name == "mpi" && (id.launcher == "trireme" || id.launcher == "torchrun"))
    return error(
        Code::kInvalid,
        "[launch] transport 'mpi' needs ranks that MPI started: got {} from {}; run mpirun -n {} trireme ...",
        id.world, id.launcher, id.world);
  if (name == "shm" && !id.one_host)
    return error(
        Code::kInvalid,
        "[launch] transport 'shm' joins ranks of one host: got {} of {} ranks on this host; use tcp or mpi",
        id.local_world, id.world);
  if (name == "shm" && id.rendezvous.empty())
    return error(Code::kInvalid,
                 "[launch] the ranks have no place to meet: {} tells no job id; set TRIREME_RENDEZVOUS to a "
                 "directory of this job alone",
                 id.launcher);
  if (name == "tcp" && id.coordinator.empty() && (!id.one_host || id.rendezvous.empty()))
    return error(Code::kInvalid,
                 "[launch] the ranks have no place to meet: {} tells no address of rank 0; give "
                 "--coordinator HOST:PORT or set TRIREME_COORDINATOR on every rank",
                 id.launcher);
  return name;
}

}  // namespace trireme::launch
