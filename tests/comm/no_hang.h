// The no-hang campaign: a scene (ranks, calls, one trouble) drawn from a seed, played on the virtual cluster,
// and what every rank is promised, whatever the scene.
#pragma once

#include <string>
#include <vector>

#include "tests/comm/ranks.h"

namespace trireme::comm::testing {

struct Op {
  collective::Kind kind = collective::Kind::kBarrier;
  std::string algorithm;
  DType dtype = DType::kF32;
  std::int64_t count = 0;  // per rank where ranks have blocks
  int root = 0;
  collective::Reduction reduction = collective::Reduction::kSum;
  bool in_subgroup = false;
  std::uint16_t slot = 0;
  std::uint32_t step = 0;
  int number = 0;  // in the scene
};
std::string label_of(const Op& op);
// Makes the call with tensors of its own.
runtime::Task<Status> make_call(Group& group, Op op);
// Rows of the table that can run the op on so many ranks.
std::vector<std::string> algorithms_for(const Op& op, int world);

enum class Trouble : std::uint8_t {
  kNone,
  kKill,
  kShortPause,  // harmless
  kLongPause,   // comes back after all is over
  kShortMute,   // harmless
  kLongMute,
  kEdge,      // a pause or mute about as long as the deadline: all go on, or all stop
  kBlackout,  // packets are lost both ways, for long
  kBlink,     // and for a moment: harmless where lost packets are sent again
  kError,     // the rank itself fails
  kOtherKind,
  kOtherDtype,
  kOtherCount,
  kOtherRoot,
  kOtherReduction,
  kOtherAlgorithm,
  kMissing,  // a call is left out
  kExtra,    // a call that nobody else makes
};
inline constexpr int kNumTroubles = 18;
const char* trouble_name(Trouble trouble);

// The op as the culprit calls it; the same for troubles that are not in the call itself.
Op deviate(Op op, Trouble trouble, int world, std::uint64_t seed);
// A call of the whole group that only the culprit makes.
Op extra_op(int culprit, std::uint32_t step, std::uint64_t seed);

struct Scene {
  std::uint64_t seed = 0;
  int world = 2;
  std::string transport = "inproc";
  double jitter = 0;
  bool muting = false;                   // by a transport that holds everything, instead of the world's pause
  std::vector<std::vector<Op>> batches;  // calls of a batch overlap, begun in another order by each rank
  std::vector<int> members;              // of the sub-group; empty: none
  Trouble trouble = Trouble::kNone;
  int culprit = 0;
  int op = -1;      // struck when it makes this call; -1: at the time
  double when = 0;  // as a part of the time that the scene takes without trouble
  TimeNs duration = 0;
  std::string text() const;
};

Scene draw_scene(std::uint64_t seed, const std::string& transport);
// Plays the scene and checks every promise with EXPECT_*.
void check_scene(const Scene& scene);
// Same scene, same trace.
std::uint64_t trace_of(const Scene& scene);

}  // namespace trireme::comm::testing
