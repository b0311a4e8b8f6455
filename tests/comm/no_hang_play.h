// What becomes of the ranks of a scene; for the checks of no_hang.cc.
#pragma once

#include <vector>

#include "tests/comm/mute.h"
#include "tests/comm/no_hang.h"

namespace trireme::comm::testing {

struct RankLog {
  std::vector<TimeNs> called;   // by number of the op; -1: not
  std::vector<Status> results;  // of the calls that returned
  Status first;                 // error
  TimeNs first_at = -1;
  Status later, left;
  TimeNs began_at = -1, leave_at = -1;  // when it had its group; when it called leave()
  bool ended = false;
  Mute* mute = nullptr;
};

struct Played {
  std::vector<RankLog> ranks;
  runtime::WorldReport report;
  TimeNs struck = -1;
};

int world_of(const Scene& scene, const Op& op);
const Op& op_of(const Scene& scene, int number);

Played play_scene(const Scene& scene);

}  // namespace trireme::comm::testing
