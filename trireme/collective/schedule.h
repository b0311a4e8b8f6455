// Schedule: a collective algorithm as a pure function (spec, rank) -> RankProgram.
//
// One definition is run over any Transport (comm), priced, simulated, verified symbolically and printed. A program is a
// list of steps with dependencies; steps address regions of numbered buffers. Buffer 0 is the result of the rank (and its
// input, for algorithms that take one input per rank); buffers 1..num_partials are its input partials (fixed-tree);
// the rest is scratch.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "trireme/base/status.h"
#include "trireme/cost/cost.h"

namespace trireme::collective {

// Values travel in fingerprints: never renumber.
enum class Kind : std::uint8_t { kAllreduce = 1, kReduce = 2, kBroadcast = 3, kAllgather = 4, kReduceScatter = 5, kBarrier = 6 };
std::string_view kind_name(Kind kind);

// A run of leaves [first, first + count) of the fixed tree, owned by one rank.
struct LeafRun {
  std::int32_t first = 0, count = 0;
};

// A node of the fixed binary tree over V leaves: the aligned interval [first, first + 2^level) cut at V. Its children are
// the two halves; a half that begins at or beyond V does not exist, and the node is then its left child.
struct TreeNode {
  std::int32_t first = 0, level = 0;
  friend bool operator==(const TreeNode&, const TreeNode&) = default;
};
// The maximal aligned subtrees that tile a run, left to right: what a rank with that run can add up by itself.
// V = 8: [0,3) -> {0,1},{2}; [3,6) -> {3},{4,5}; [6,8) -> {6,7}.
std::vector<TreeNode> maximal_subtrees(LeafRun run, std::int32_t num_leaves);

struct ScheduleSpec {
  Kind kind = Kind::kAllreduce;
  int world = 1;
  int root = 0;
  std::int64_t count = 0;        // elements
  std::int32_t elem_bytes = 4;
  std::int64_t segment_bytes = 1 << 20;  // largest message an algorithm should make, a hint
  std::vector<LeafRun> leaf_runs;  // fixed-tree: one per rank, in order, covering [0, num_leaves)
  std::int32_t num_leaves = 0;
  std::uint64_t bytes() const { return static_cast<std::uint64_t>(count) * static_cast<std::uint64_t>(elem_bytes); }
};

enum class StepKind : std::uint8_t { kSend, kRecv, kReduce, kCopy };  // kReduce: dst = dst + src

struct Region {
  std::int32_t buffer = 0;
  std::int64_t offset = 0;  // elements
};

struct Step {
  StepKind kind = StepKind::kSend;
  std::int32_t peer = -1;        // send, recv
  std::uint32_t part = 0;        // message number for this pair of ranks and direction: matches send and recv
  Region src, dst;               // send: src; recv: dst; reduce, copy: both
  std::int64_t count = 0;        // elements
  std::uint32_t first_dep = 0;   // into RankProgram::deps
  std::uint32_t num_deps = 0;
};

struct RankProgram {
  int rank = 0;
  int num_partials = 0;                    // buffers 1..num_partials
  std::vector<std::int64_t> scratch_elems;  // sizes of the buffers after the partials
  std::vector<Step> steps;                 // dependencies point backwards: a step's deps have smaller indices
  std::vector<std::uint32_t> deps;

  std::span<const std::uint32_t> deps_of(const Step& s) const { return {deps.data() + s.first_dep, s.num_deps}; }
  std::uint64_t bytes_sent(std::int32_t elem_bytes) const;
  std::string to_text() const;
};

struct Price {
  std::int64_t rounds = 0;          // longest chain of messages
  double bytes_per_rank = 0;        // sent by the busiest rank
  double reduce_bytes_per_rank = 0;
};
TimeNs price_time(const Price& price, const cost::LinkModel& link, const cost::MachineModel& machine);

// A row of collective/table.cc.
struct Algorithm {
  const char* name;
  const char* doc;
  Kind kind;
  Status (*applicable)(const ScheduleSpec& spec);  // ok, or why not
  Result<RankProgram> (*build)(const ScheduleSpec& spec, int rank);
  Price (*price)(const ScheduleSpec& spec);        // closed form
  bool fixed_order;                                // the order of summation is the fixed tree
};
std::span<const Algorithm> algorithm_table();
Result<const Algorithm*> find_algorithm(Kind kind, std::string_view name);
// The cheapest applicable algorithm for a link and machine.
Result<const Algorithm*> select_algorithm(const ScheduleSpec& spec, const cost::LinkModel& link, const cost::MachineModel& machine);

// Runs all ranks' programs symbolically, as expression trees, in every order the dependencies allow (races are found by
// checking that unordered steps of a rank do not touch the same elements). Fails when a message has no partner, a cycle
// waits, a region is out of bounds, an element of the result is not the sum of every leaf exactly once, or, with
// `fixed_order`, is not exactly the fixed tree. Worlds and counts should be small.
Status verify_schedule(const Algorithm& algorithm, const ScheduleSpec& spec);

}  // namespace trireme::collective
