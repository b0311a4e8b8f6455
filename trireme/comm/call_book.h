// The calls of this rank, as the membership asks for them (net/call_log.h): those under way and the last
// kKept that ended. A call costs a look-up and no allocation once its slot was used.
#pragma once

#include <array>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "trireme/collective/schedule.h"
#include "trireme/net/call_log.h"
#include "trireme/net/transport.h"
#include "trireme/tensor/dtype.h"

namespace trireme::comm {

// What ranks must agree on, beyond the fingerprint that messages carry.
struct CallShape {
  collective::Kind kind = collective::Kind::kBarrier;  // as told to the others
  DType dtype = DType::kF32;
  std::int64_t count = 0;
  collective::Reduction reduction = collective::Reduction::kSum;
  int root = 0;
  const char* algorithm = "";  // of collective/table.cc
  std::uint64_t parts = 0;     // hash over counts, edges and leaf runs; 0: none were given
};
std::uint64_t hash_parts(std::span<const std::int64_t> counts, std::span<const collective::Edge> edges,
                         std::span<const collective::LeafRun> leaf_runs);
// "allreduce of 100 f32 (sum, ring)", "broadcast of 100 f32 from root 1 (binomial)".
std::string in_words(const CallShape& shape);

// Loop only.
class CallBook final : public net::CallLog {
 public:
  static constexpr std::size_t kKept = 256;

  // `line`: net::CallLog::line_of.
  void join(std::uint16_t group, int line = -1) {
    groups_.push_back(group);
    lines_.push_back(line);
  }
  // A rank of it was lost: its calls fail, wherever each rank was, and are compared no more.
  void quit(std::uint16_t group) { dead_.push_back(group); }
  // Names the call that begins. Every call is counted, so that turns agree; one that ends at once and that
  // the others are known to have made alike need not be written down.
  net::CallId count(const net::Identity& id);
  void started(const net::CallId& id, const net::Fingerprint& fingerprint, const CallShape& shape,
               const std::string& operation);
  void ended(const net::CallId& id);
  // The latest call under way with this text.
  std::optional<net::CallId> find_under_way(const std::string& operation) const;
  std::size_t num_under_way() const { return active_.size(); }
  std::size_t num_entries() const { return entries_.size(); }

  bool is_member(std::uint16_t group) const override;
  int line_of(std::uint16_t group) const override;
  std::optional<net::CallRecord> find_call(const net::CallId& id) const override;
  std::optional<net::CallMark> latest_call(std::uint16_t group, std::uint16_t slot,
                                           std::uint32_t step) const override;
  std::vector<net::CallId> lasting_calls(std::size_t max) override;

 private:
  struct Entry {
    net::CallId id;
    std::uint64_t fingerprint = 0;
    CallShape shape;
    std::string operation;            // keeps its memory from call to call
    std::uint64_t serial = 0;         // 0: forgotten
    bool seen = false, told = false;  // by lasting_calls
  };
  struct Turn {
    std::uint32_t step = 0, turn = 0;
  };
  static constexpr std::size_t kNearSlots = 64;
  const Entry* last_before(const Entry& call) const;

  std::vector<std::uint16_t> groups_, dead_;
  std::vector<int> lines_;  // as groups_
  std::vector<Entry> entries_;
  std::vector<std::uint32_t> free_;              // entries to use again
  std::vector<std::uint32_t> active_;            // in order of their calls
  std::array<std::uint32_t, kKept> ended_ = {};  // a ring
  std::size_t first_ended_ = 0, num_ended_ = 0;
  std::array<Turn, kNearSlots> near_turns_ = {};   // of the first group, by slot
  std::unordered_map<std::uint32_t, Turn> turns_;  // of the others, by group and slot
  std::uint64_t num_calls_ = 0;
};

}  // namespace trireme::comm
