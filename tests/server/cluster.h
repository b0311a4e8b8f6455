// Workers and parameter servers on a virtual cluster: what a test says is what a worker does; servers live
// until every worker has ended.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "trireme/comm/group.h"
#include "trireme/runtime/virtual/world.h"
#include "trireme/server/client.h"
#include "trireme/server/server.h"

namespace trireme::server::testing {

using Vector = std::vector<float>;

// What a worker has.
struct Worker {
  runtime::Runtime& rt;
  comm::Group& group;
  Client& client;
  int worker = 0;
};

struct Cluster {
  int workers = 2, servers = 1;
  bool colocated = false;   // server s on rank s % workers
  bool expendable = false;  // workers but the first may be lost
  std::vector<Key> keys;
  std::int64_t small_elems = 4;  // so that small vectors are cut too
  std::string consistency = "bsp";
  ConsistencyOptions clocks = {};  // num_workers is filled in
  MakeUpdate make_update = nullptr;
  bool divide_by_staleness = false;
  LinkCoding link = {};
  MakeProduct make_product = nullptr;
  runtime::WorldSpec spec = {};  // topology: made
  std::function<runtime::Task<Status>(Worker w)> work;

  // Results.
  std::vector<Status> worker_status, server_status;  // of lost ranks: "not ended"
  std::vector<ServerStats> stats;
  std::map<std::string, Vector> state;  // of all servers, by name
  runtime::WorldReport report;

  int world() const { return colocated ? workers : workers + servers; }
  int rank_of(int server) const { return colocated ? server % workers : workers + server; }
  ServerStats total() const;
};

void run(Cluster& cluster);
// The same, and everybody must end well.
void run_well(Cluster& cluster);

Tensor tensor_of(const Vector& values);
Vector values_of(const Tensor& t);
// A vector on its own, whole.
Key key_of(std::string name, std::int64_t elems);

}  // namespace trireme::server::testing
