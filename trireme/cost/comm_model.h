// CommModel: what the time of a collective is computed from. Links and machine as the cost model has them,
// and what a host adds: how fast ranks add, how fast they read a peer's memory, how many share the cores.
#pragma once

#include "trireme/cost/cost.h"

namespace trireme::cost {

struct CommModel {
  LinkModel link;  // between machines; every message where the ranks' machines are not known
  // Between ranks of one machine, used where the machine of every rank is known.
  LinkModel local{.latency_ns = 500, .bytes_per_second = 10e9, .message_overhead_ns = 200};
  MachineModel machine;
  // Per byte of the vector that is added to what a rank has. 0: three bytes of memory traffic on `machine`.
  double reduce_seconds_per_byte = 0;
  // Copying out of (or into) a peer's memory in place. 0: two bytes of memory traffic on `machine`.
  double peer_bytes_per_second = 0;
  // Ranks that share a machine and take its processors for everything they do, messages included (shared
  // memory, loopback). More ranks than cores take turns. 0: links move bytes by themselves.
  int ranks_per_host = 0;

  CommModel() = default;
  CommModel(const LinkModel& one_link, const MachineModel& m) : link(one_link), machine(m) {}

  double reduce_seconds(double bytes) const;     // one processor, without the overhead of an op
  double peer_copy_seconds(double bytes) const;  // one processor
  double crowding() const;                       // how many ranks take turns on a core, at least 1
};

}  // namespace trireme::cost
