#include <array>

#include "trireme/net/factory.h"
#include "trireme/net/inproc/inproc.h"
#include "trireme/net/mpi/mpi.h"
#include "trireme/net/shm/shm.h"
#include "trireme/net/tcp/tcp.h"

namespace trireme::net {
namespace {

constexpr std::array kTransports{
    TransportRow{"inproc", "ranks of one process: threads, or the virtual cluster", connect_inproc},
    TransportRow{"shm", "ranks of one host: shared memory, found over Unix sockets", connect_shm},
    TransportRow{"tcp", "ranks on any hosts, over TCP", connect_tcp},
    TransportRow{"mpi", "ranks that mpirun started, over MPI", connect_mpi},
};

}  // namespace

std::span<const TransportRow> transport_table() { return kTransports; }

runtime::Task<Result<std::unique_ptr<Transport>>> connect_transport(runtime::Runtime& rt, std::string name,
                                                                    ConnectOptions options) {
  if (options.world < 1 || options.rank < 0 || options.rank >= options.world)
    co_return error(Code::kInvalid,
                    "[net] no such rank: got rank {} of {}, expected 0..world-1; fix the launch",
                    options.rank, options.world);
  std::string names;
  for (const TransportRow& row : kTransports) {
    if (name == row.name) co_return co_await row.connect(rt, std::move(options));
    names += names.empty() ? row.name : fmt::format(", {}", row.name);
  }
  co_return error(Code::kNotFound, "[net] no such transport: got '{}', expected one of {}; change the name",
                  name, names);
}

}  // namespace trireme::net
