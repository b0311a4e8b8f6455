// mpi: ranks that mpirun (or srun with PMI) started, over MPI's messages.
//
// Small messages go with their header; larger ones are offered and go straight from the sender's buffer into
// the recv's once both are there (wire.h). An offer that nobody receives for a millisecond is taken in, up to
// kMaxHeldBytes per peer, so that a send ends without its recv as with the other transports. Control messages
// have a tag of their own. MPI is entered by the loop only, through a Poller. MPI has no doorbell: while work
// is outstanding the poller keeps the loop turning for a moment, then looks again after sleeps that grow to a
// millisecond.
//
// A process that dies takes the job with it: mpirun ends the others (Open MPI 4.1). After a failure the
// transport does not finalize MPI; the process must end with an exit code other than 0, which makes mpirun
// end the rest. MPI_Abort is never called.
#pragma once

#include "trireme/net/factory.h"

namespace trireme::net {

// Rank and world must be those of MPI; a smaller world is made of the first ranks. `options.rendezvous` is
// not used. kUnavailable where there is no MPI (mpi/environment.h) or the Runtime is virtual.
runtime::Task<Result<std::unique_ptr<Transport>>> connect_mpi(runtime::Runtime& rt, ConnectOptions options);

}  // namespace trireme::net
