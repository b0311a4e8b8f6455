// Partitioned linear, after the "partitioned linearity topology" by which Mariana swaps parameters between
// GPUs on a tree of PCIe switches (Zou, Jin, Li, Guo, Wang and Xiao, "Mariana: Tencent deep learning platform
// and its applications", Proc. VLDB Endowment 7 (13), 2014, 1772-1777): the ranks form a line, partition j
// belongs to rank j.
//
// Reduce: every partition is summed from both ends of the line towards its owner, who adds left sum + own +
// right sum. Distribute: it goes back from the owner to both ends. All transfers are between neighbours of
// the line, and all of them both ways at once: on a tree of switches with the line in tree order no two of
// them use the same link in the same direction. 2 (P-1) rounds, about 2 n sent by a rank inside the line.
//
// A rank's sends are written in the order in which a pipeline has them ready, farthest partition first.
#include <algorithm>

#include "trireme/collective/applicable.h"
#include "trireme/collective/builder.h"
#include "trireme/collective/loads.h"

namespace trireme::collective {
namespace {

// Messages of a pair and direction: partition j while reducing, P + j while distributing.
struct Line {
  int world, rank;

  struct Transfer {
    int time, partition;
    bool right;  // towards, or from, the right neighbour
    friend auto operator<=>(const Transfer&, const Transfer&) = default;
  };
  // In order of the time at which a pipeline sends (recvs: gets) them.
  std::vector<Transfer> reduce_sends() const {
    std::vector<Transfer> t;
    for (int j = rank + 1; j < world; ++j) t.push_back({rank + (world - 1 - j), j, true});
    for (int j = 0; j < rank; ++j) t.push_back({world - 1 - rank + j, j, false});
    std::sort(t.begin(), t.end());
    return t;
  }
  std::vector<Transfer> distribute_sends() const {
    std::vector<Transfer> t;
    if (rank < world - 1)
      for (int j = 0; j <= rank; ++j) t.push_back({ready(j) + rank - j, j, true});
    if (rank > 0)
      for (int j = rank; j < world; ++j) t.push_back({ready(j) + j - rank, j, false});
    std::sort(t.begin(), t.end());
    return t;
  }
  int ready(int j) const { return std::max(j, world - 1 - j); }
};

void write_reduce(ProgramBuilder& b, const Line& line) {
  const int rank = line.rank, last = line.world - 1;
  const std::int64_t most = b.chunks().max_size();
  const ProgramBuilder::Place via[2][2] = {
      {b.scratch(rank > 0 ? most : 0), b.scratch(rank > 0 ? most : 0)},
      {b.scratch(rank < last ? most : 0), b.scratch(rank < last ? most : 0)}};
  // From the left come the partitions from `rank` on, farthest first; from the right those up to `rank`.
  int turn[2] = {0, 0};
  const auto take = [&](int j, bool from_right) {
    b.recv_reduce(from_right ? rank + 1 : rank - 1, static_cast<std::uint32_t>(j),
                  via[from_right][turn[from_right]++ % 2], b.chunk(j), /*message_is_left=*/!from_right);
  };
  for (const auto& t : line.reduce_sends()) {
    const bool inner = t.right ? rank > 0 : rank < last;
    if (inner) take(t.partition, !t.right);
    b.send(t.right ? rank + 1 : rank - 1, static_cast<std::uint32_t>(t.partition), b.chunk(t.partition));
  }
  if (rank > 0) take(rank, false);
  if (rank < last) take(rank, true);
}

void write_distribute(ProgramBuilder& b, const Line& line) {
  const int rank = line.rank;
  const auto part = [&](int j) { return static_cast<std::uint32_t>(line.world + j); };
  for (int j = 0; j < line.world; ++j)
    if (j != rank) b.recv(j < rank ? rank - 1 : rank + 1, part(j), b.chunk(j));
  for (const auto& t : line.distribute_sends())
    b.send(t.right ? rank + 1 : rank - 1, part(t.partition), b.chunk(t.partition));
}

Result<RankProgram> build(const ScheduleSpec& spec, int rank) {
  ProgramBuilder b{spec, rank, /*num_chunks=*/spec.world};
  if (spec.world == 1) return b.build();
  const Line line{spec.world, rank};
  write_reduce(b, line);
  write_distribute(b, line);
  return b.build();
}

// Over every edge of the line, in both directions, goes every partition once: inwards while reducing or
// outwards while distributing. Rank i adds its own partition from both sides and passes on the others.
// Partition 0, which is the largest, goes along the whole line and back.
Price price(const ScheduleSpec& spec) {
  if (spec.count == 0 || spec.world == 1) return {};
  const Chunking chunks{spec.count, spec.world};
  Loads loads(spec);
  std::int64_t added = 0, crossings = 0;
  for (int i = 0; i < spec.world; ++i) {
    const std::int64_t right = i < spec.world - 1 ? chunks.offset(i + 1) : 0;
    const std::int64_t left = i > 0 ? spec.count - chunks.offset(i) : 0;
    added = std::max(added, right + left);
    if (i + 1 == spec.world) break;
    const std::int64_t num_sent = std::min<std::int64_t>(spec.count, spec.world);
    loads.add(i, i + 1, num_sent, spec.count);
    loads.add(i + 1, i, num_sent, spec.count);
    crossings += loads.crosses(i, i + 1) ? 1 : 0;
  }
  const auto bytes = [&](std::int64_t elems) { return static_cast<double>(elems * spec.elem_bytes); };
  Price p{.rounds = 2 * (spec.world - 1), .hops = 2 * (spec.world - 1)};
  p.reduce_bytes_per_rank = bytes(added);
  loads.fill(p, spec.elem_bytes, p.rounds * chunks.size(0));
  // Inner ranks serve both directions in the second half of each phase and wait for the ends in the first:
  // about that much, by the virtual network.
  p.waiting_bytes = 1.5 * static_cast<double>(spec.bytes()) * (spec.world - 2) / spec.world;
  p.exposed_reduce_bytes = bytes((spec.world - 1) * chunks.size(0));
  p.between.hops = 2 * crossings;
  if (crossings > 0) p.between.waiting_hops = std::max<std::int64_t>(0, spec.world - 1 - 2 * crossings);
  p.flow = Flow::kMixed;
  return p;
}

}  // namespace

extern const Algorithm kLinear{
    .name = "linear",
    .doc = "partitions summed along a line towards their owners and back: neighbours only, no link shared",
    .kind = Kind::kAllreduce,
    .applicable = one_input_per_rank,
    .build = build,
    .price = price,
    .fixed_order = false};

}  // namespace trireme::collective
