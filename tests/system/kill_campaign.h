// Kills `trireme train --workers 2` at random moments and gives the same command again, until it finishes.
#pragma once

#include <cstdint>

namespace trireme::system_test {

struct KillReport {
  int kills = 0;
  int runs = 0;         // that finished, each killed as often as it happened
  int steps_saved = 0;  // kills that left a checkpoint to go on from
};

// Every process of the run gets SIGKILL at once. Moments are drawn from `seed` over the time that a run left
// alone takes. Fails the test where a run ends in other bits than one left alone, or with other lines of
// metrics.
KillReport run_kill_campaign(int kills, std::uint64_t seed);

}  // namespace trireme::system_test
