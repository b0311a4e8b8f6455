// What the membership asks the group about the calls of this rank, so that ranks whose calls differ are found
// even where no message shows it (two ranks that both wait, a root that only sends).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace trireme::net {

// One call of a group. `turn` counts the calls of this rank that had the same group, slot and step, one after
// the other: the n-th of one rank belongs to the n-th of another.
struct CallId {
  std::uint16_t group = 0, slot = 0;
  std::uint32_t step = 0;
  std::uint32_t turn = 0;

  std::uint64_t pack() const {
    return (std::uint64_t{group} << 48) | (std::uint64_t{slot} << 32) | step;  // without the turn
  }
  static CallId unpack(std::uint64_t word, std::uint32_t turn) {
    return {static_cast<std::uint16_t>(word >> 48), static_cast<std::uint16_t>(word >> 32),
            static_cast<std::uint32_t>(word), turn};
  }
  friend bool operator==(const CallId&, const CallId&) = default;
};

// Digests of a rank that has left and never made the call, and of one that has not made it yet.
inline constexpr std::uint64_t kNotMade = 1, kNotYet = 2;

// How this rank made a call.
struct CallRecord {
  CallId id;
  std::uint64_t fingerprint = 0;  // packed, as its messages carry it
  std::uint64_t digest = 0;       // over everything that ranks must agree on; above kNotYet
  std::uint64_t serial = 0;       // grows with every call of this rank
  std::string operation;          // "allreduce bucket 0, step 17"
  std::string words;              // "allreduce of 100 f32 (sum, ring)"
  bool is_new = false;            // this rank's call in its place in the step before was another one
};

struct CallMark {
  CallId id;
  std::uint64_t fingerprint = 0;
};

// Loop only. A log remembers what is under way and some hundred calls before that.
class CallLog {
 public:
  virtual ~CallLog() = default;
  virtual bool is_member(std::uint16_t group) const = 0;
  // Groups that have no rank in common may have the same number, and make calls that others of them never
  // make. The lowest rank of the one that this rank is in; -1: there is but one.
  virtual int line_of(std::uint16_t /*group*/) const { return -1; }
  virtual std::optional<CallRecord> find_call(const CallId& id) const = 0;
  // The latest call of (group, slot, step), whatever its turn.
  virtual std::optional<CallMark> latest_call(std::uint16_t group, std::uint16_t slot,
                                              std::uint32_t step) const = 0;
  // Asked once per heartbeat: calls that were under way the last time too, each told once, oldest first, at
  // most `max`.
  virtual std::vector<CallId> lasting_calls(std::size_t max) = 0;
};

}  // namespace trireme::net
