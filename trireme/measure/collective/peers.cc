#include "trireme/measure/collective/peers.h"

namespace trireme::measure {
namespace {

using collective::Kind;

// Flags without which mpirun refuses what is ordinary here: more ranks than cores, a container's root.
std::vector<std::string> mpirun_argv(const std::string& mpirun, int world) {
  return {mpirun, "--allow-run-as-root", "--oversubscribe", "-n", std::to_string(world)};
}

// Parameters of Open MPI 4.1's "tuned" collectives: a forced algorithm of the kind.
MpiSetting tuned(const char* name, const char* kind, int algorithm) {
  return {name,
          {"--mca", "coll_tuned_use_dynamic_rules", "1", "--mca",
           fmt::format("coll_tuned_{}_algorithm", kind), std::to_string(algorithm)}};
}

}  // namespace

std::vector<MpiSetting> mpi_settings(const PeerOptions& options, Kind kind) {
  if (!options.mpi_args.empty()) return {{"given", options.mpi_args}};
  std::vector<MpiSetting> settings{
      {"default", {}},
      {"copy twice", {"--mca", "btl_vader_single_copy_mechanism", "none"}},
      {"coll sm", {"--mca", "coll_sm_priority", "100"}},
  };
  if (kind == Kind::kAllreduce) {
    settings.push_back(tuned("recursive doubling", "allreduce", 3));
    settings.push_back(tuned("ring", "allreduce", 4));
    settings.push_back(tuned("rabenseifner", "allreduce", 6));
  }
  return settings;
}

SideSpec mpi_side(const PeerOptions& options, const MpiSetting& setting, int index, int world,
                  const std::string& dir) {
  SideSpec side;
  side.name = index == 0 ? "mpi" : fmt::format("mpi-{}", index);
  side.dir = dir;
  side.world = world;
  runtime::ProcessSpec process;
  process.argv = mpirun_argv(options.mpirun, world);
  process.argv.insert(process.argv.end(), setting.args.begin(), setting.args.end());
  process.argv.push_back(options.peers_dir + "/bench_mpi_collectives");
  side.processes.push_back(std::move(process));
  return side;
}

SideSpec gloo_side(const PeerOptions& options, int world, const std::string& dir) {
  SideSpec side;
  side.name = "gloo";
  side.dir = dir;
  side.world = world;
  side.arrival = 180 * kSecond;  // importing PyTorch takes long where many do it at once
  for (int r = 0; r < world; ++r) {
    runtime::ProcessSpec process;
    process.argv = {options.python, options.peers_dir + "/bench_gloo_collectives.py", std::to_string(r),
                    std::to_string(world), dir + "/gloo.store"};
    side.processes.push_back(std::move(process));
  }
  return side;
}

SideSpec own_side(const OwnOptions& options, int world, const std::string& dir) {
  SideSpec side;
  side.name = "ours";
  side.dir = dir;
  side.world = world;
  std::vector<std::string> command{options.binary,    "bench-rank", "--transport",
                                   options.transport, "--world",    std::to_string(world)};
  if (!options.coordinator.empty())
    command.insert(command.end(), {"--coordinator", options.coordinator});
  else
    command.insert(command.end(), {"--rendezvous", dir});
  if (options.insecure) command.emplace_back("--insecure");
  if (options.spin_us) command.insert(command.end(), {"--spin-us", fmt::format("{}", *options.spin_us)});
  if (options.shared_buffers) command.insert(command.end(), {"--buffers", "shared"});
  const bool one_process = options.transport == "inproc" || options.transport == "mpi";
  for (int r = 0; r < (one_process ? 1 : world); ++r) {
    runtime::ProcessSpec process;
    if (options.transport == "mpi") process.argv = mpirun_argv(options.mpirun, world);
    for (std::string word : options.rank_prefix) {
      if (const std::size_t at = word.find("{rank}"); at != std::string::npos)
        word.replace(at, 6, std::to_string(r));
      process.argv.push_back(std::move(word));
    }
    process.argv.insert(process.argv.end(), command.begin(), command.end());
    if (!one_process) process.argv.insert(process.argv.end(), {"--rank", std::to_string(r)});
    process.argv.emplace_back("--driver");
    side.processes.push_back(std::move(process));
  }
  return side;
}

}  // namespace trireme::measure
