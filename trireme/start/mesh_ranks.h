// Ranks of a mesh on this host that do not train: a trained model is evaluated or asked by several of them.
// They are processes that this one starts, or threads of it.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "trireme/comm/group.h"
#include "trireme/launch/environment.h"
#include "trireme/parallel/mesh.h"
#include "trireme/runtime/runtime.h"
#include "trireme/start/trouble.h"

namespace trireme::start {

// What one rank does. Goes before its group.
class RankWork {
 public:
  virtual ~RankWork() = default;
  // Before the ranks meet: what may take long and needs nobody else.
  virtual runtime::Task<Status> prepare(runtime::Runtime& rt) = 0;
  // How long a silent rank is waited for; asked after prepare().
  virtual TimeNs deadline() const = 0;
  // With the others. A failure of one rank ends all of them.
  virtual runtime::Task<Status> run(runtime::Runtime& rt, comm::Group& group) = 0;
};
using MakeRankWork = std::function<std::unique_ptr<RankWork>(int rank)>;

struct MeshRun {
  parallel::Mesh mesh;
  // The words of a process that calls run_mesh_rank(). An empty first word is this program.
  std::vector<std::string> command;
  TimeNs deadline = 2 * kSecond;  // as of RankWork
  std::string temp_dir = "/tmp";  // for sockets and logs
};
// Starts the ranks and waits until every one has ended, whatever they do; rank 0 has the standard output of
// this process. The failure names the ranks that failed, with their coordinates, and what each said.
// kCancelled: an interrupt has ended them.
runtime::Task<Status> run_mesh_processes(runtime::Runtime& rt, MeshRun run);

struct MeshRank {
  launch::RankIdentity id;  // of a process that run_mesh_processes() started
  parallel::Mesh mesh;
  std::vector<RankFault> faults = {};
  std::function<void(std::string_view)> log_sink = {};
};
struct MeshRankEnd {
  Status failure;
  bool is_told = false;  // it is written where whoever started the ranks reads it
};
// Blocks until the rank has ended.
MeshRankEnd run_mesh_rank(const MeshRank& rank, std::unique_ptr<RankWork> work);

// Ranks as threads, each with a Runtime of its own. Blocks until every rank ended; in rank order.
std::vector<Status> run_mesh_threads(const parallel::Mesh& mesh, const MakeRankWork& make);

}  // namespace trireme::start
