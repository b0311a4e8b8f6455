// VirtualWorld: a cluster in one thread and one virtual clock. Events are ordered by (time, sequence number),
// machines and links follow the cost model, faults come from the spec and a seed: the same spec and seed give
// the same trace.
//
// Use: make a world, add Runtimes (one per rank) on machines, start a Task on each, run(). The world outlives
// its Runtimes' users. Not thread-safe: one thread per world; several worlds may run in several threads.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "trireme/cost/cost.h"
#include "trireme/runtime/runtime.h"

namespace trireme::runtime {

// A fault that the world injects. `site`/`index` select a fault_point of `rank` (site "" = at time `at`).
struct FaultSpec {
  enum class Kind : std::uint8_t { kKill, kPause, kMiscall, kError, kSlow, kMute };
  Kind kind = Kind::kKill;
  int runtime = -1;            // index of the Runtime it strikes
  TimeNs at = -1;              // virtual time, or
  std::string site;            // the fault point and
  std::uint64_t index = 0;     // its running number
  TimeNs duration = kForever;  // of a pause or mute
  double factor = 1;           // of a slow-down
};

// One message as the world saw it leave, for comparing runs. `header` is the transport's.
struct MessageRecord {
  TimeNs sent, delivered;  // delivered < 0: lost or still under way
  int from, to;
  std::array<std::uint64_t, 6> header;
  std::uint64_t bytes;
};

struct WorldSpec {
  cost::Topology topology;
  bool phantom = false;  // skip compute functions and payloads
  std::uint64_t seed = 1;
  std::vector<FaultSpec> faults;
  bool record_messages = false;
  // Bounded jitter of link latency, as a fraction (0 = none), drawn from the seed: makes seeds explore
  // orders.
  double latency_jitter = 0;
};

struct WorldReport {
  bool finished = false;  // every started Task ended (or its Runtime was killed)
  TimeNs end_time = 0;
  std::uint64_t num_events = 0, num_messages = 0, num_bytes = 0;
  std::uint64_t trace_hash = 0;  // over every event, message and log line in order
  std::string stuck;             // when !finished: which Runtimes still wait
};

// The program that Processes::spawn runs on the virtual machine.
using VirtualProgram = std::function<Task<int>(Runtime&, std::vector<std::string> argv,
                                               std::vector<std::pair<std::string, std::string>> env)>;

class VirtualWorld {
 public:
  virtual ~VirtualWorld() = default;
  // Runtimes are numbered from 0 in order of creation; mailbox ids default to that number.
  virtual Runtime& add_runtime(int machine, std::string name) = 0;
  virtual void start(Runtime& runtime, Task<void> task) = 0;
  virtual void set_program(VirtualProgram program) = 0;
  // Runs until every Task ended, nothing is left to do, or `limit` of virtual time.
  virtual WorldReport run(TimeNs limit) = 0;
  virtual bool is_dead(const Runtime& runtime) const = 0;
  virtual const std::vector<MessageRecord>& messages() const = 0;
  // Log lines of a Runtime so far.
  virtual const std::vector<std::string>& log_of(const Runtime& runtime) const = 0;
};

std::unique_ptr<VirtualWorld> make_virtual_world(WorldSpec spec);

}  // namespace trireme::runtime
