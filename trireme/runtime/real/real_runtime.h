// The real Runtime: one loop on the thread that calls run(), a compute pool, an I/O thread, the operating
// system.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "trireme/runtime/runtime.h"

namespace trireme::runtime {

// Joins the Runtimes of one process, so that their endpoints reach each other. Thread-safe.
class Fabric;
std::shared_ptr<Fabric> make_fabric();

// A fault for this process, e.g. from `--fault kill@collective:7`.
struct RealFault {
  enum class Kind : std::uint8_t { kKill, kPause, kMiscall, kError };
  Kind kind = Kind::kKill;
  std::string site;
  std::uint64_t index = 0;
};

// The addresses of a host by name ("10.0.0.7", "::1"), in the order they are tried. Empty: not known now.
using Resolve = std::function<std::vector<std::string>(const std::string& host)>;

// How to make a real Runtime.
struct RealOptions {
  std::string name = "main";
  int compute_threads = 0;         // 0: all cores
  TimeNs spin_ns = 50 * kMicro;    // wait policy: spin at most this long, then block on the doorbell
  std::shared_ptr<Fabric> fabric;  // null: a fabric of its own
  std::vector<RealFault> faults;
  // Above 1: compute takes this many times as long, the rest of it asleep: a straggler for experiments.
  double slow_factor = 1;
  std::function<void(std::string_view)> log_sink;  // default: nothing
  Resolve resolve;                                 // default: the system's
};

class RealRuntime : public Runtime {
 public:
  // Runs the loop on the calling thread until `task` ends. May be called again.
  virtual void run(Task<void> task) = 0;
};

// Throws CannotStart (exhausted.h) when the process may not have the descriptors or threads.
std::unique_ptr<RealRuntime> make_real_runtime(RealOptions options);

// That this process may use: its affinity, within the quotas of its cgroups (cores.h).
int num_cores();

// Runs each function on a thread of its own and joins them: several ranks in one process.
void run_in_threads(std::vector<std::function<void()>> bodies);

}  // namespace trireme::runtime
