// Who is who among the ranks of a job: workers first, then servers that have processes of their own.
#pragma once

#include <string>
#include <vector>

#include "trireme/job/job.h"

namespace trireme::job {

struct Roles {
  int workers = 1;                // ranks 0 .. workers - 1; rank 0 is also the coordinator
  int servers = 0;                // parameter servers
  std::vector<int> server_ranks;  // of each server; colocated ones share ranks with workers
  int world = 1;                  // ranks in all

  bool is_worker(int rank) const { return rank < workers; }
  // The servers on `rank`, ascending.
  std::vector<int> servers_on(int rank) const;
  // In messages: "rank 1", "server 0 (rank 2)", "worker 1 and server 0 (rank 1)".
  std::string name_of(int rank) const;
};

// A verdict on a rank, which calls that rank by what it is.
Status name_culprit(const Status& verdict, const Roles& roles);

// By the job alone, which check_job has found good.
Roles roles_of(const Job& job);

// A launcher started `world` ranks: parallel.workers becomes what the servers leave. kInvalid:
// nothing is left, or another number was asked for (`workers` > 0).
Status fit_workers(Job& job, int world, int workers, std::string_view launcher);

// kInvalid where the job's agreement cannot run over this transport: shm, tcp, mpi, inproc.
Status check_transport(const Job& job, std::string_view transport);

}  // namespace trireme::job
