// How a process learns from its environment which rank it is, whoever started it: the table of launchers.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "trireme/base/status.h"

namespace trireme::launch {

// Looks up a variable; null: not set. Only `cli` reads the real environment.
using Lookup = std::function<const char*(const char*)>;

// Who this process is, when a launcher started it, and where the ranks may meet.
struct RankIdentity {
  int rank = 0;
  int world = 1;
  int local_rank = 0;       // among the ranks of this host
  int local_world = 1;      // ranks of this host
  int host_cores = 0;       // that the launcher has for them; 0: it does not say
  bool one_host = true;     // all ranks are on this host
  std::string launcher;     // name of the row
  std::string rendezvous;   // a directory of this host, of this job alone; empty: none is known
  std::string coordinator;  // "host:port" where rank 0 can listen; empty: none is known
  // The directory was given by the launcher, which removes it; otherwise rank 0 makes and removes it.
  bool rendezvous_given = false;
  bool coordinator_given = false;  // by the user, not derived: it is used even on one host
};

struct Launcher {
  const char* name;
  const char* doc;
  // Empty: it did not start this process. Errors: variables that are missing, no numbers, or contradict.
  Result<std::optional<RankIdentity>> (*read)(const Lookup& get);
};
// In the order they are asked: the first that knows this process decides.
std::span<const Launcher> launcher_table();

// Empty when this process was not launched; an error when the variables make no sense. TRIREME_RENDEZVOUS and
// TRIREME_COORDINATOR override where any launcher's ranks meet.
Result<std::optional<RankIdentity>> rank_from_environment(const Lookup& get);

// The transport for `wanted`: "auto" is shm on one host and tcp on several. An error says what to set when
// the ranks have no place to meet, or the transport cannot be used with this launcher.
Result<std::string> choose_transport(const RankIdentity& id, std::string_view wanted);

}  // namespace trireme::launch
