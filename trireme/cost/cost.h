// The one cost model: what an op or a message costs on a machine or a link. Pure values and functions.
//
// A duration is max(flops / rate, bytes / bandwidth) + a fixed overhead: a roofline with a launch cost.
// A message of n bytes on a link takes latency + n / bandwidth, and occupies the link for n / bandwidth.
#pragma once

#include <cstdint>
#include <string>

#include "trireme/base/units.h"

namespace trireme::cost {

// What one run of an op needs, independent of any machine.
struct OpCost {
  double flops = 0;
  double bytes = 0;  // compulsory traffic: every input read once, every output written once
  // The work-depth model (Ben-Nun and Hoefler, "Demystifying Parallel and Distributed Deep Learning", 2018):
  // W elementary operations (a multiply-add is one), D of them one after the other on any number of
  // processors.
  double work = 0;
  double depth = 0;

  // One after the other: depths add.
  OpCost& operator+=(const OpCost& o) {
    flops += o.flops;
    bytes += o.bytes;
    work += o.work;
    depth += o.depth;
    return *this;
  }
  double parallelism() const { return depth > 0 ? work / depth : 0; }  // W/D
  friend OpCost operator+(OpCost a, const OpCost& b) { return a += b; }
  friend bool operator==(const OpCost&, const OpCost&) = default;
};

// A host: rates are per core, for one thread; bandwidth is shared by the cores of the host.
struct MachineModel {
  std::string name = "generic";
  int cores = 2;
  double flops_per_second_per_core = 50e9;
  double bytes_per_second = 10e9;
  TimeNs op_overhead_ns = 2 * kMicro;
  double speed = 1.0;  // 0.25 = four times slower than the rates say
};

// One direction of a network link or a shared bus.
struct LinkModel {
  TimeNs latency_ns = 25 * kMicro;
  double bytes_per_second = 1.25e9;         // 10 Gbit/s
  TimeNs message_overhead_ns = 2 * kMicro;  // sender's processor time per message
};

// Time of `cost` on `threads` cores of `machine`.
TimeNs compute_time(const OpCost& cost, const MachineModel& machine, int threads);

// Serialisation time (occupancy) of `bytes` on `link`, without latency.
TimeNs transfer_time(std::uint64_t bytes, const LinkModel& link);

}  // namespace trireme::cost
