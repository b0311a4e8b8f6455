// VirtualWorld: a cluster in one thread and one virtual clock. Events are ordered by (time, sequence number),
// machines and links follow the cost model, faults come from the spec and a seed: the same spec and seed give
// the same trace.
//
// Use: make a world, add Runtimes (one per rank) on machines, start a Task on each, run(). The world outlives
// its Runtimes' users. Not thread-safe, Runtime::post included: one thread per world; several worlds may run
// in several threads.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "trireme/cost/topology.h"
#include "trireme/runtime/runtime.h"
#include "trireme/runtime/virtual/faults.h"

namespace trireme::runtime {

// A fault that the world injects into one Runtime, once: at time `at`, or when it reaches fault_point(site,
// index).
//   kKill     dead from that moment: its events are dropped, its calls do nothing, its endpoints and streams
//             close, files that it wrote and did not sync go back to what was synced. At site "disk" inside
//             a write or append, half of the bytes stay.
//   kPause    its events are held in order for `duration`, and what it still calls takes effect after that.
//   kMiscall, kError  what fault_point returns; with a time instead of a site, what the next fault_point
//             after it returns. kError at site "disk" fails that operation (its index counts the Runtime's
//             file operations).
//   kSlow     its compute takes `factor` times as long, for `duration`.
//   kMute     its packets are lost both ways for `duration`; nobody hears of it.
//   kRestart  killed, and `duration` later its programs (start_program) begin anew in a new Runtime of the
//             same name and machine, which has the files that were synced. Without programs: killed.
struct FaultSpec {
  enum class Kind : std::uint8_t { kKill, kPause, kMiscall, kError, kSlow, kMute, kRestart };
  Kind kind = Kind::kKill;
  int runtime = -1;            // index of the Runtime it strikes
  TimeNs at = -1;              // virtual time, when site is ""
  std::string site;            // or the fault point and
  std::uint64_t index = 0;     // its running number
  TimeNs duration = kForever;  // of a pause, mute or slow-down; how long until a restart
  double factor = 1;           // of a slow-down
};

// One endpoint message as the world saw it leave, for comparing runs. `header` is the transport's, `bytes`
// the payload's, from and to are endpoint ids.
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
  NetworkFaults network;
  std::vector<DiskFault> disk_faults;
  bool record_messages = false;
  // A latency becomes latency * (1 + jitter * u), u in [0, 1) drawn from the seed: makes seeds explore
  // orders. Packets between two endpoints stay in order. Added to the jitter of the topology's links.
  double latency_jitter = 0;
};

struct WorldReport {
  bool finished = false;  // every started Task ended (or its Runtime was killed)
  TimeNs end_time = 0;
  std::uint64_t num_events = 0, num_messages = 0;
  std::uint64_t num_bytes = 0;   // on the wire: payloads and 48 bytes per message
  std::uint64_t trace_hash = 0;  // over every event, message and log line in order
  std::string stuck;             // when !finished: which Runtimes still wait, with their last log line
};

// The program that Processes::spawn runs on the virtual machine.
using VirtualProgram = std::function<Task<int>(Runtime&, std::vector<std::string> argv,
                                               std::vector<std::pair<std::string, std::string>> env)>;

class VirtualWorld {
 public:
  virtual ~VirtualWorld() = default;
  // Runtimes are numbered from 0 in order of creation; endpoint ids default to that number.
  virtual Runtime& add_runtime(int machine, std::string name) = 0;
  // The report waits for Tasks started here; those of Runtime::spawn and of child processes come and go.
  virtual void start(Runtime& runtime, Task<void> task) = 0;
  // The same, with a program that a kRestart fault can begin anew.
  virtual void start_program(Runtime& runtime, std::function<Task<void>(Runtime&)> program) = 0;
  virtual void set_program(VirtualProgram program) = 0;
  // Runs until every started Task ended, nothing is left to do, or virtual time `limit`. May be called again:
  // it goes on where it was; when every Task had ended before, it runs what is left over.
  virtual WorldReport run(TimeNs limit) = 0;
  virtual bool is_dead(const Runtime& runtime) const = 0;
  virtual const std::vector<MessageRecord>& messages() const = 0;
  // Log lines of a Runtime so far.
  virtual const std::vector<std::string>& log_of(const Runtime& runtime) const = 0;
};

std::unique_ptr<VirtualWorld> make_virtual_world(WorldSpec spec);

}  // namespace trireme::runtime
