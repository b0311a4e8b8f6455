// Transports by name. A row says when a transport is viable; each implementation sits in net/<name>/.
#pragma once

#include <memory>
#include <span>
#include <string>

#include "trireme/net/transport.h"

namespace trireme::net {

struct ConnectOptions {
  int rank = 0;
  int world = 1;
  std::uint32_t epoch = 1;
  // shm: a directory for Unix sockets. tcp without coordinator: a directory that all hosts see.
  std::string rendezvous;
  int endpoint_base = 0;              // inproc: endpoint id of rank 0
  TimeNs deadline = 30 * kSecond;     // for everybody to arrive
  std::size_t ring_bytes = 1U << 20;  // shm: per directed pair
  // shm: room for windows per rank. Address space: memory is taken by what is touched.
  std::size_t window_bytes = std::size_t{1} << 30;
  // tcp: where rank 0 listens and everybody finds the others, "host:port".
  std::string coordinator = {};
  std::string job = {};  // tcp: a name that all ranks of the job give; ranks of another are refused
  // tcp: the address to listen at; empty: that by which the coordinator is reached (without coordinator:
  // loopback)
  std::string bind = {};
  bool insecure = false;  // tcp: listen beyond loopback although nothing is encrypted yet
};

struct TransportRow {
  const char* name;
  const char* doc;
  runtime::Task<Result<std::unique_ptr<Transport>>> (*connect)(runtime::Runtime& rt, ConnectOptions options);
};

std::span<const TransportRow> transport_table();
// kNotFound lists the names that exist.
runtime::Task<Result<std::unique_ptr<Transport>>> connect_transport(runtime::Runtime& rt, std::string name,
                                                                    ConnectOptions options);

}  // namespace trireme::net
