// Who can be measured beside us: how the ranks of each side are started.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "trireme/measure/collective/side.h"

namespace trireme::measure {

// Where things are and how they are started; from the command line and the environment.
struct PeerOptions {
  std::string peers_dir;           // folder of bench_mpi_collectives and bench_gloo_collectives.py
  std::string python = "python3";  // one with PyTorch
  std::string mpirun = "mpirun";
  std::vector<std::string> mpi_args;  // given: the only setting that is measured
};

// A way to run Open MPI that may be its best.
struct MpiSetting {
  std::string name;  // "default", "coll sm"
  std::vector<std::string> args;
};
std::vector<MpiSetting> mpi_settings(const PeerOptions& options, collective::Kind kind);

// `dir`: of the run, for sockets and logs.
SideSpec mpi_side(const PeerOptions& options, const MpiSetting& setting, int index, int world,
                  const std::string& dir);
SideSpec gloo_side(const PeerOptions& options, int world, const std::string& dir);

// How ours are started: this binary, one process per rank (inproc: one for all).
struct OwnOptions {
  std::string binary;
  std::string transport = "shm";
  std::string coordinator;               // tcp: HOST:PORT where rank 0 listens; empty: they meet in `dir`
  bool insecure = false;                 // tcp: listen beyond loopback
  std::vector<std::string> rank_prefix;  // put before every rank's command; "{rank}" becomes its number
  std::optional<double> spin_us;
  bool shared_buffers = false;
  std::string mpirun = "mpirun";
};
SideSpec own_side(const OwnOptions& options, int world, const std::string& dir);

}  // namespace trireme::measure
