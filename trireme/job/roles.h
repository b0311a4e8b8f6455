// Who is who among the ranks of a job: workers first, then servers that have processes of their own.
//
// The workers are the ranks of the mesh. A replica, one copy of the model, is one coordinate of its data
// axis; leases, balance and clocks belong to replicas, and the first rank of each speaks for it.
#pragma once

#include <string>
#include <vector>

#include "trireme/base/json.h"
#include "trireme/job/job.h"
#include "trireme/parallel/mesh.h"

namespace trireme::job {

struct Roles {
  int workers = 1;                               // ranks 0 .. workers - 1; rank 0 is also the coordinator
  int servers = 0;                               // parameter servers
  std::vector<int> server_ranks;                 // of each server; colocated ones share ranks with workers
  int world = 1;                                 // ranks in all
  parallel::Mesh mesh = parallel::data_mesh(1);  // of the workers

  bool is_worker(int rank) const { return rank < workers; }
  int num_replicas() const { return mesh.num_replicas(); }
  // The rank is a worker.
  int replica_of(int rank) const { return mesh.replica_of(rank); }
  bool speaks(int rank) const { return is_worker(rank) && mesh.speaks(rank); }
  // By replica, its ranks: the speaker first, or, seen by a worker, the rank that has its place there.
  std::vector<std::vector<int>> replicas() const;
  std::vector<std::vector<int>> replicas_seen_by(int rank) const;
  // The rank first that has that place in its replica: 0 speaks, and of a mesh with a model axis place t has
  // tile t of the model.
  std::vector<std::vector<int>> replicas_seen_from(int place) const;
  int num_places() const { return workers / num_replicas(); }   // ranks of a replica
  int place_of(int rank) const { return rank % num_places(); }  // of a worker
  // Ranks that the others could go on without: of replicas without rank 0 and without a server.
  std::vector<int> spare_ranks() const;
  // The servers on `rank`, ascending.
  std::vector<int> servers_on(int rank) const;
  // In messages: "rank 1", "rank 5 (data 1, model 0)", "server 0 (rank 2)", "worker 1 and server 0 (rank 1)".
  std::string name_of(int rank) const;
  // "rank 5 (data 1, model 0)", or "rank 5" where the mesh has one axis or the rank is no worker.
  std::string rank_text(int rank) const { return mesh.rank_text(rank); }
  // By rank of the mesh, "data 1, model 0"; empty where it has one axis.
  std::vector<std::string> places() const;
  // {"data": 1, "model": 0}; null where the mesh has one axis or the rank is no worker.
  Json coordinates(int rank) const;
};

// A verdict on a rank, which calls that rank by what it is.
Status name_culprit(const Status& verdict, const Roles& roles);

// A mesh of the axes that jobs have. kInvalid names the axis that means nothing here.
Result<parallel::Mesh> parse_job_mesh(std::string_view text);
// The mesh of a job's workers: parallel.mesh with its data axis first, or data = workers. kInvalid: an axis
// that means nothing here, another order, or a product that is not the number of workers.
Result<parallel::Mesh> mesh_of(const Job& job);
// Where the job has a mesh and does not say how many workers (`workers_given`), they are its product.
void take_workers_of_mesh(Job& job, bool workers_given);

// Parts of the model: train.logical_tiles, or the size of the mesh's model axis.
std::int32_t tiles_of(const Job& job);

// Ranks along the mesh's stage axis; segments that fix the arithmetic of a model cut in its depth; parts of a
// replica's batch that follow each other through the stages, which are its logical shards.
int stages_of(const Job& job);
std::int32_t segments_of(const Job& job);
std::int64_t micro_batches_of(const Job& job);
// Stages begin later steps before one ends, and learn from gradients of older weights.
bool overlaps_steps(const Job& job);
// Parts of a batch: train.logical_shards, or one per replica and micro-batch.
std::int64_t shards_of(const Job& job);

// Who runs which parts of which replica, where workers have several parts: the job then has a rank for each
// part, and several ranks run on a worker (net/seats.h).
struct Seating {
  parallel::Mesh mesh;  // of the ranks
  int num_workers = 1;
  // By rank, its worker; behind them servers that have processes of their own, counted on.
  std::vector<int> workers = {};
  bool is_plain() const { return mesh.num_ranks() == num_workers; }
};
// kInvalid: more workers along the model axis than parts, or more parts than a worker may have.
Result<Seating> seating_of(const Job& job, std::int32_t tiles);

// By the job alone, which check_job has found good.
Roles roles_of(const Job& job);
// With the mesh of a plan for the job.
Roles roles_of(const Job& job, parallel::Mesh mesh);

// A launcher started `world` ranks: parallel.workers becomes what the servers leave. kInvalid:
// nothing is left, or another number was asked for (`workers` > 0).
Status fit_workers(Job& job, int world, int workers, std::string_view launcher);

// kInvalid where the job's agreement cannot run over this transport: shm, tcp, mpi, inproc.
Status check_transport(const Job& job, std::string_view transport);

}  // namespace trireme::job
