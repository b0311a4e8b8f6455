// MPI of this process: the loaded module, initialised. Who initialises MPI finalizes it, and only in good
// order: a process that has seen its group fail leaves without, with an exit code of its own, and mpirun ends
// the rest. MPI can neither be initialised twice nor after it was finalized.
#pragma once

#include <memory>
#include <string>

#include "trireme/base/status.h"
#include "trireme/net/mpi/module/calls.h"

namespace trireme::net::mpi {

class MpiEnvironment {
 public:
  MpiEnvironment(const TriremeMpiCalls& calls, bool owner, int rank, int world)
      : calls_(calls), owner_(owner), rank_(rank), world_(world) {}
  MpiEnvironment(const MpiEnvironment&) = delete;
  MpiEnvironment& operator=(const MpiEnvironment&) = delete;
  // Finalizes (waits for the other processes) if this one initialised and nothing went wrong.
  ~MpiEnvironment();

  const TriremeMpiCalls& calls() const { return calls_; }
  int rank() const { return rank_; }    // of this process
  int world() const { return world_; }  // processes in all
  void spoil() { spoilt_ = true; }      // do not finalize
  std::string describe(int error) const;
  std::string library() const;  // "Open MPI v4.1.4, ..."

 private:
  const TriremeMpiCalls& calls_;
  const bool owner_;
  bool spoilt_ = false;
  const int rank_, world_;
};

// Loads libtrireme_mpi.so (beside the binary, in ../lib, or where the loader finds it) and initialises MPI
// unless that is done. Waits for the other processes of mpirun: they must come too, or mpirun ends them all.
// kUnavailable says what to install.
Result<std::shared_ptr<MpiEnvironment>> start_environment();

}  // namespace trireme::net::mpi
