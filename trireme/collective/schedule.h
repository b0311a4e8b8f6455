// Schedule: a collective algorithm as a pure function (spec, rank) -> RankProgram.
//
// One definition is run over any Transport (comm), priced, simulated, verified symbolically and printed. A
// program is a list of steps with dependencies; steps address regions of numbered buffers. Buffer 0 is the
// result of the rank and, for most kinds, its input (contract.h says what it holds before and after); buffers
// 1..num_partials are further memory of the caller: input partials (fixed-tree), the input of an all-to-all,
// the blocks of a neighbourhood exchange; the rest is scratch. Buffer 1 may be the same memory as buffer 0
// when it is a partial: programs are right either way, and the verifier proves both.
//
// A step may start when the steps it depends on are done: a send is done when its region may be written
// again, a recv when the message is there (and added, for the recv-reduce kinds). A send may be done only
// after its partner has started to receive; the verifier proves that programs end under that rule too. The
// sends of a rank start in program order, so that the sequence of its messages is the same in every run.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "trireme/base/status.h"
#include "trireme/cost/comm_model.h"
#include "trireme/cost/cost.h"

namespace trireme::collective {

// Values travel in fingerprints: never renumber.
enum class Kind : std::uint8_t {
  kAllreduce = 1,
  kReduce = 2,
  kBroadcast = 3,
  kAllgather = 4,
  kReduceScatter = 5,
  kBarrier = 6,
  kGather = 7,
  kScatter = 8,
  kAllToAll = 9,
  kNeighbours = 10
};
std::string_view kind_name(Kind kind);
// Kinds that add: allreduce, reduce, reduce-scatter.
constexpr bool is_reduction(Kind k) {
  return k == Kind::kAllreduce || k == Kind::kReduce || k == Kind::kReduceScatter;
}
// Kinds with a root: reduce, broadcast, gather, scatter.
constexpr bool has_root(Kind k) {
  return k == Kind::kReduce || k == Kind::kBroadcast || k == Kind::kGather || k == Kind::kScatter;
}

// What "adding" means. The mean is the sum, divided by the number of ranks where the result lies. Values
// travel in fingerprints.
enum class Reduction : std::uint8_t { kSum = 0, kMean = 1, kMax = 2, kMin = 3 };
std::string_view reduction_name(Reduction reduction);

// Neighbourhood exchange: `from` sends `count` elements to `to`. At most one edge per ordered pair.
struct Edge {
  std::int32_t from = 0, to = 0;
  std::int64_t count = 0;
  friend bool operator==(const Edge&, const Edge&) = default;
};

// A run of leaves [first, first + count) of the fixed tree, owned by one rank.
struct LeafRun {
  std::int32_t first = 0, count = 0;
};

// A node of the fixed binary tree over V leaves: the aligned interval [first, first + 2^level) cut at V. Its
// children are the two halves; a half that begins at or beyond V does not exist, and the node is then its
// left child.
struct TreeNode {
  std::int32_t first = 0, level = 0;
  friend bool operator==(const TreeNode&, const TreeNode&) = default;
};
// The maximal aligned subtrees that tile a run, left to right: what a rank with that run can add up by
// itself. V = 8: [0,3) -> {0,1},{2}; [3,6) -> {3},{4,5}; [6,8) -> {6,7}.
std::vector<TreeNode> maximal_subtrees(LeafRun run, std::int32_t num_leaves);

struct ScheduleSpec {
  Kind kind = Kind::kAllreduce;
  int world = 1;
  int root = 0;
  // Elements of the whole operation: of the vector for allreduce, reduce, broadcast and reduce-scatter, of
  // all blocks together for gather, scatter and allgather, of what one rank sends for an all-to-all, and the
  // sum of `counts` or of the edges where these are given.
  std::int64_t count = 0;
  std::int32_t elem_bytes = 4;
  std::int64_t segment_bytes = 1 << 20;  // chain: size of a segment; largest message to make, a hint
  // fixed-tree: one per rank, in order, covering [0, num_leaves); none: one leaf per rank, num_leaves =
  // world.
  std::vector<LeafRun> leaf_runs = {};
  std::int32_t num_leaves = 0;
  Reduction reduction = Reduction::kSum;
  // The v forms. Gather, scatter, allgather, reduce-scatter: the block of each rank; all-to-all: world x
  // world, row r what rank r sends. None: `count` is cut in blocks that differ by at most one, larger ones
  // first.
  std::vector<std::int64_t> counts = {};
  std::vector<Edge> edges = {};             // neighbourhood exchange
  std::vector<std::int32_t> group_of = {};  // hierarchical: the machine (or socket) of each rank
  bool peer_memory = false;                 // the transport can read a peer's buffers in place
  std::uint64_t bytes() const {
    return static_cast<std::uint64_t>(count) * static_cast<std::uint64_t>(elem_bytes);
  }
};

// Additions are written with their operands in order, so that a program fixes the bits: dst = left + right.
enum class StepKind : std::uint8_t {
  kSend,            // src -> peer
  kRecv,            // peer -> dst
  kCopy,            // dst = src
  kReduce,          // dst = dst + src
  kReduceLeft,      // dst = src + dst
  kRecvReduce,      // peer -> src (scratch), then dst = dst + src
  kRecvReduceLeft,  // peer -> src (scratch), then dst = src + dst
  kReadPeer,        // dst = the peer's src, read in place: no message
  kReadReduce,      // dst = dst + the peer's src
  kScale,           // dst = dst / world (mean)
};
std::string_view step_name(StepKind kind);
constexpr bool is_recv(StepKind k) {
  return k == StepKind::kRecv || k == StepKind::kRecvReduce || k == StepKind::kRecvReduceLeft;
}
constexpr bool is_reduce(StepKind k) {
  return k == StepKind::kReduce || k == StepKind::kReduceLeft || k == StepKind::kRecvReduce ||
         k == StepKind::kRecvReduceLeft || k == StepKind::kReadReduce;
}
constexpr bool is_read(StepKind k) { return k == StepKind::kReadPeer || k == StepKind::kReadReduce; }

struct Region {
  std::int64_t buffer : 16 = 0;
  std::int64_t offset : 48 = 0;  // elements
};

// 40 bytes: a ring of 1,024 ranks has four million of them.
struct Step {
  Region src, dst;              // send: src; recv, scale: dst; others: both
  std::int64_t count = 0;       // elements
  std::int32_t peer = -1;       // send, recv, read
  std::uint32_t part = 0;       // names the message among those of this pair of ranks and direction
  std::uint32_t first_dep = 0;  // into RankProgram::deps
  std::uint16_t num_deps = 0;
  StepKind kind = StepKind::kSend;
};
static_assert(sizeof(Step) == 40);

struct RankProgram {
  int rank = 0;
  int num_partials = 0;                     // buffers 1..num_partials
  std::vector<std::int64_t> scratch_elems;  // sizes of the buffers after the partials
  std::vector<Step> steps;  // dependencies point backwards: a step's deps have smaller indices
  std::vector<std::uint32_t> deps;

  std::span<const std::uint32_t> deps_of(const Step& s) const {
    return {deps.data() + s.first_dep, s.num_deps};
  }
  std::uint64_t bytes_sent(std::int32_t elem_bytes) const;
  std::string to_text() const;
};

// Where group_of tells the machine of every rank and there are several: what crosses between machines and
// what stays inside, by the busiest machine and in its busier direction.
struct MachineLoads {
  std::int64_t hops = 0;  // most arrivals from other machines on any chain
  // Further hops that wait for slower ones before them; like Price::waiting_bytes not a count.
  std::int64_t waiting_hops = 0;
  std::int64_t messages = 0, local_messages = 0;
  double bytes = 0, local_bytes = 0;
  friend bool operator==(const MachineLoads&, const MachineLoads&) = default;
};
// How messages inside and between machines follow one another.
enum class Flow : std::uint8_t {
  kPhases,        // first the ones, then the others
  kMixed,         // at the same time
  kThereAndBack,  // in phases, and in one direction first: a machine's link never works both ways
};
// What an algorithm costs, independent of any link or machine. "Busiest" is meant field by field.
struct Price {
  // Longest chain of messages. What waits for a send to be done waits for that message; reads are no
  // messages.
  std::int64_t rounds = 0;
  // Longest chain of arrivals, for latencies: what waits for a send to be done does not wait for its arrival.
  std::int64_t hops = 0;
  double bytes_per_rank = 0;         // sent, or read from peers, by the busiest rank
  double reduce_bytes_per_rank = 0;  // added to what the rank had, by the busiest rank
  // Bytes of messages that follow one another: of the busiest sender, of the busiest receiver (incast: what
  // comes into one rank comes one after the other), or of the heaviest chain of messages, whichever is most.
  double serial_bytes = 0;
  // Time, in bytes of a link, that the busiest link waits for others beyond the serial bytes. Not a count: it
  // is tested against the virtual network.
  double waiting_bytes = 0;
  std::int64_t messages_sent = 0, messages_received = 0;  // by the busiest rank
  // Additions that no message hides: what lengthens the way from the inputs to the result. At most
  // everything that follows one another; where sums are done while further messages come in, only the last.
  double exposed_reduce_bytes = 0;
  double peer_copy_bytes = 0;  // read from peers' memory without being added, by the busiest rank

  MachineLoads between = {};
  Flow flow = Flow::kPhases;
  friend bool operator==(const Price&, const Price&) = default;
};
// What the programs of all ranks really do: the closed forms are tested against it. It leaves
// waiting_*, exposed_reduce_bytes and flow as they are: these are no counts. group_of as in
// ScheduleSpec.
Price measure_programs(std::span<const RankProgram> programs, std::int32_t elem_bytes,
                       std::span<const std::int32_t> group_of = {});
// latency of the rounds + the busiest link (message overheads and serial bytes) + exposed additions, and no
// less than all additions of a rank; docs/collectives.md has the formulas. The parts, for explanations:
struct PriceTime {
  TimeNs latency = 0, messages = 0, bytes = 0, additions = 0;
  TimeNs total() const { return latency + messages + bytes + additions; }
};
PriceTime price_parts(const Price& price, const cost::CommModel& model);
TimeNs price_time(const Price& price, const cost::CommModel& model);
// All ranks on machines of their own, joined by equal links.
TimeNs price_time(const Price& price, const cost::LinkModel& link, const cost::MachineModel& machine);

// A row of collective/table.cc.
struct Algorithm {
  const char* name;
  const char* doc;
  Kind kind;
  Status (*applicable)(const ScheduleSpec& spec);  // ok, or why not
  Result<RankProgram> (*build)(const ScheduleSpec& spec, int rank);
  Price (*price)(const ScheduleSpec& spec);  // without building programs; exact
  bool fixed_order;                          // the order of summation is the fixed tree
};
std::span<const Algorithm> algorithm_table();
// What every spec must satisfy, whatever the algorithm: root, counts, edges, groups.
Status check_spec(const ScheduleSpec& spec);
// The whole program: check_spec, applicable, build, and the division of a mean.
Result<RankProgram> build_program(const Algorithm& algorithm, const ScheduleSpec& spec, int rank);
Result<const Algorithm*> find_algorithm(Kind kind, std::string_view name);
// What a choice of algorithm was made of, cheapest first; those that do not apply come last.
struct Candidate {
  const Algorithm* algorithm = nullptr;
  Price price;
  TimeNs time = 0;  // predicted
  Status applicable;
};
struct Choice {
  const Algorithm* algorithm = nullptr;
  std::vector<Candidate> candidates;
  std::string reason;  // "butterfly: 85 us, of which 81 us latency (3 rounds)...; next is ring: 162 us"
};
// The cheapest applicable one of `candidates` (rows of one kind); the first of equals.
Result<Choice> choose(const ScheduleSpec& spec, std::span<const Algorithm* const> candidates,
                      const cost::CommModel& model);
Result<Choice> choose(const ScheduleSpec& spec, std::span<const Algorithm* const> candidates,
                      const cost::LinkModel& link, const cost::MachineModel& machine);
std::vector<const Algorithm*> algorithms_of(Kind kind);
// The choice among all rows of the kind.
Result<const Algorithm*> select_algorithm(const ScheduleSpec& spec, const cost::CommModel& model);
Result<const Algorithm*> select_algorithm(const ScheduleSpec& spec, const cost::LinkModel& link,
                                          const cost::MachineModel& machine);

// Runs all ranks' programs symbolically, as expression trees, in every order the dependencies allow (races
// are found by checking that unordered steps of a rank do not touch the same elements). Fails when a message
// has no partner, a cycle waits, a region is out of bounds, a rank reads memory of a peer that the peer may
// be writing or may have left, an element of the result is not what the kind promises (for a sum: every leaf
// exactly once, in the same order on every rank), or, with `fixed_order`, is not exactly the fixed tree.
// Worlds and counts should be small.
Status verify_schedule(const Algorithm& algorithm, const ScheduleSpec& spec);
// The same for programs at hand, one per rank.
Status verify_programs(std::span<const RankProgram> programs, const ScheduleSpec& spec, bool fixed_order);

}  // namespace trireme::collective
