#include "trireme/start/mesh_ranks.h"

#include <algorithm>

#include "trireme/job/roles.h"
#include "trireme/launch/launch.h"
#include "trireme/net/factory.h"
#include "trireme/runtime/files.h"
#include "trireme/runtime/real/cores.h"
#include "trireme/runtime/real/real_runtime.h"
#include "trireme/start/failed_ranks.h"
#include "trireme/start/rank_error.h"

namespace trireme::start {
namespace {

using runtime::Task;

job::Roles roles_of(const parallel::Mesh& mesh) {
  job::Roles roles;
  roles.workers = roles.world = mesh.num_ranks();
  roles.mesh = mesh;
  return roles;
}

// The whole life of a rank.
struct Life {
  std::string transport;
  net::ConnectOptions connect;
  parallel::Mesh mesh;
  bool may_spin = true;
  std::unique_ptr<RankWork> work;
};

Task<Status> live(runtime::Runtime& rt, Life& life) {
  TR_CO_RETURN_IF_ERROR(co_await life.work->prepare(rt));
  auto transport = co_await net::connect_transport(rt, life.transport, life.connect);
  if (!transport.ok()) co_return transport.status();
  comm::GroupOptions options;
  options.epoch = options.membership.epoch = life.connect.epoch;
  options.membership.deadline = life.work->deadline();
  options.membership.heartbeat = options.membership.deadline / 10;
  options.membership.arrival = options.membership.deadline;  // connecting has shown that everybody is there
  options.membership.names.coordinates = roles_of(life.mesh).places();
  if (!life.may_spin) options.spin_ns = 0;
  auto group = comm::make_group(rt, std::move(*transport), options);
  if (!group.ok()) co_return group.status();
  const Status done = co_await life.work->run(rt, **group);
  // A failure of this rank alone (a file, its memory) becomes the verdict of all.
  if (!done.ok() && (*group)->verdict().ok()) (*group)->fail("its work", done.message());
  const Status left = co_await (*group)->leave();
  life.work.reset();
  if (done.ok() && !left.ok()) co_return left;
  co_return done;
}

Task<void> live_into(runtime::Runtime& rt, Life& life, Status& out) { out = co_await live(rt, life); }

// A verdict in the words of ranks that train advises to resume the job, and here there is nothing to resume.
Status without_advice(const Status& failure, const parallel::Mesh& mesh) {
  const ErrorContext& c = failure.context();
  if (failure.ok() || !c.peer || c.operation.empty() || c.reason.empty()) return failure;
  return Status(failure.code(),
                fmt::format("[comm] {} failed in {}: {}", mesh.rank_text(*c.peer), c.operation, c.reason), c);
}

std::string log_folder(const std::string& rendezvous) { return rendezvous + "/log"; }

Task<void> process_main(runtime::Runtime& rt, const MeshRank& rank, Life& life, MeshRankEnd& end) {
  end.failure = without_advice(co_await live(rt, life), rank.mesh);
  if (end.failure.ok()) co_return;
  const std::string text = rank_error(rank.id.rank, end.failure, roles_of(rank.mesh)).dump(2) + "\n";
  const std::string path = fmt::format("{}/rank-{}.error.json", log_folder(rank.id.rendezvous), rank.id.rank);
  const Status written = co_await rt.files().write_atomic(path, as_bytes(text));
  end.is_told = written.ok();
}

constexpr int kInterrupt = 2;  // the number of the signal, by POSIX

// Ctrl-C ends a rank, which has nothing to save.
bool was_interrupted(const std::vector<launch::RankExit>& exits) {
  return std::any_of(exits.begin(), exits.end(),
                     [](const launch::RankExit& e) { return e.status.signal == kInterrupt; });
}

}  // namespace

Task<Status> run_mesh_processes(runtime::Runtime& rt, MeshRun run) {
  record::RunFolder folder;
  folder.path = fmt::format("{}/trireme-{:x}", run.temp_dir, rt.unix_time_ns());
  launch::LaunchSpec spec;
  spec.world = run.mesh.num_ranks();
  spec.rendezvous = folder.path;
  spec.argv = std::move(run.command);
  spec.grace = run.deadline + kSecond;
  for (int r = 0; r < spec.world; ++r) spec.log_paths.push_back(folder.log_of(r));
  TR_CO_RETURN_IF_ERROR(co_await rt.files().make_dirs(log_folder(folder.path)));
  const TimeNs grace = spec.grace;
  const Result<std::vector<launch::RankExit>> exits = co_await launch::launch_local(rt, std::move(spec));
  Status failure = exits.status();
  if (exits.ok() && was_interrupted(*exits)) {
    failure = Status(Code::kCancelled, "[launch] interrupted");
  } else if (exits.ok() && !std::all_of(exits->begin(), exits->end(), ended_well)) {
    failure = co_await describe_ranks(rt, folder, roles_of(run.mesh), *exits, grace);
  }
  (void)co_await rt.files().remove_all(folder.path);
  co_return failure;
}

MeshRankEnd run_mesh_rank(const MeshRank& rank, std::unique_ptr<RankWork> work) {
  const launch::RankIdentity& id = rank.id;
  const int host_cores = id.host_cores > 0 ? id.host_cores : runtime::launcher_cores();
  const bool may_spin = id.local_world <= host_cores;
  const Result<std::string> transport = launch::choose_transport(id, "auto");
  if (!transport.ok()) return {transport.status(), false};
  runtime::RealOptions options;
  options.name = fmt::format("rank {}", id.rank);
  options.compute_threads = runtime::threads_of_rank(runtime::num_cores(), host_cores, id.local_world);
  if (!may_spin) options.spin_ns = 0;
  options.faults = faults_of(rank.faults, id.rank);
  options.log_sink = rank.log_sink;
  const auto rt = runtime::make_real_runtime(options);
  Life life;
  life.transport = *transport;
  life.connect.rank = id.rank;
  life.connect.world = id.world;
  life.connect.rendezvous = id.rendezvous;
  life.mesh = rank.mesh;
  life.may_spin = may_spin;
  life.work = std::move(work);
  MeshRankEnd end;
  rt->run(process_main(*rt, rank, life, end));
  return end;
}

std::vector<Status> run_mesh_threads(const parallel::Mesh& mesh, const MakeRankWork& make) {
  const int world = mesh.num_ranks();
  const auto fabric = runtime::make_fabric();
  std::vector<Status> results(static_cast<std::size_t>(world));
  std::vector<std::function<void()>> bodies;
  for (int rank = 0; rank < world; ++rank) {
    bodies.push_back([&, rank] {
      runtime::RealOptions options;
      options.name = fmt::format("rank {}", rank);
      options.compute_threads = std::max(1, runtime::num_cores() / world);
      if (world > runtime::num_cores()) options.spin_ns = 0;
      options.fabric = fabric;
      const auto rt = runtime::make_real_runtime(options);
      Life life;
      life.transport = "inproc";
      life.connect.rank = rank;
      life.connect.world = world;
      life.mesh = mesh;
      life.may_spin = world <= runtime::num_cores();
      life.work = make(rank);
      rt->run(live_into(*rt, life, results[static_cast<std::size_t>(rank)]));
    });
  }
  runtime::run_in_threads(std::move(bodies));
  return results;
}

}  // namespace trireme::start
