// Who is at fault: pure functions over what the coordinator knows of every rank.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "trireme/base/units.h"
#include "trireme/net/verdict.h"

namespace trireme::net {

// What the last heartbeat of a rank said.
struct RankView {
  TimeNs heard_at = -1;   // -1: never
  bool busy = false;      // computes or reads a file
  TimeNs stalled_ns = 0;  // by its own clock: neither busy nor progressing for so long
  int waits_for = -1;
  std::string operation;
  bool left = false;     // said goodbye
  TimeNs left_at = -1;   // when that was heard; -1: not known
  bool patient = false;  // waits for letters (WaitingFor::patient)
  bool lost = false;     // expendable, and gone: nobody asks any more
};

// One rank said that it disagrees with another.
struct Disagreement {
  int reporter = 0;
  int accused = 0;
  std::string operation;
  std::string reason;
};

// The operation to name when `culprit` failed: what somebody waits for it in, else what it was in, else any.
std::string operation_around(std::span<const RankView> ranks, int culprit);

// A rank other than `self` that was silent for `deadline` and `slack` (one never heard of: since `started`
// for `arrival`). When everybody fell silent at once in a world of more than two, `self` is the one that was
// cut off.
std::optional<Verdict> judge_silence(std::span<const RankView> ranks, int self, TimeNs now, TimeNs started,
                                     TimeNs deadline, TimeNs arrival, TimeNs slack = 0);

// Ranks that made a call in the same way.
struct CallClass {
  std::uint64_t digest = 0;
  std::string operation, words;  // as the first of them told
  std::vector<int> ranks;
  std::vector<std::uint64_t> serials = {};  // of each of them: which of its calls this is
  std::vector<int> missing = {};            // members of the group that have not made it
  std::size_t num_new = 0;                  // ranks that called something else there in the step before
};

// Follows who waits for whom from `start`, over ranks that stand still for `deadline`. A chain that ends at a
// rank that waits for nobody: that rank did not call. A chain that reaches a busy or progressing rank, or one
// that waits for letters: nobody. A cycle: where one rank waits for another in a call that this one skipped,
// by what the rest did: the one that skipped it; else the rank of the cycle whose operation fewest ranks
// share or made (last resort: the highest rank). `calls`: who made the calls that last, as far as they told.
std::optional<Verdict> judge_stuck(std::span<const RankView> ranks, int start, TimeNs deadline,
                                   std::span<const CallClass> calls = {}, const RankNames& names = {});
// The same from every rank that stands still; O(world).
std::optional<Verdict> judge_all_stuck(std::span<const RankView> ranks, TimeNs deadline,
                                       std::span<const CallClass> calls = {}, const RankNames& names = {});

// Every rank that is there stands still for `standstill`. One waits for another: whoever is at the end of
// that chain (in a circle: its highest rank) would have had to write. Else, some have left: the lowest that
// has not.
std::optional<Verdict> judge_standstill(std::span<const RankView> ranks, TimeNs standstill,
                                        const RankNames& names = {});

// The rank that most others disagree with; equal: whose operation fewest ranks share; equal: accused most
// often; equal: accused first. Precondition: not empty.
Verdict judge_mismatch(std::span<const RankView> ranks, std::span<const Disagreement> reports);
// Two ranks disagree, and one of them alone has made its call: the other made none there, or a message, which
// only its two ends know of.
std::optional<Verdict> judge_lone_caller(std::span<const CallClass> calls,
                                         std::span<const Disagreement> reports, const RankNames& names = {});

// No way of making the call is rarer than another: who is wrong cannot be known (yet).
bool is_undecided(std::span<const CallClass> classes);
// The lowest rank of the rarest way. Undecided: where the ranks of one way alone called something else in the
// step before, and all others what they did then, that way; else whom the reports accuse most, then the
// highest rank. Names the operation of the most frequent way, and what both called. Precondition: two classes
// at least.
Verdict judge_calls(std::span<const CallClass> classes, std::span<const Disagreement> reports,
                    const RankNames& names = {});

}  // namespace trireme::net
