// Partitioned linear (after Mariana's exchange between GPUs: Zou et al., "Mariana: Tencent deep learning
// platform and its applications", VLDB 2014): the ranks form a line, partition j belongs to rank j.
//
// Reduce: every partition is summed from both ends of the line towards its owner, who adds left sum + own +
// right sum. Distribute: it goes back from the owner to both ends. All transfers are between neighbours of
// the line, and all of them both ways at once: on a tree of switches with the line in tree order no two of
// them use the same link in the same direction. 2 (P-1) rounds, about 2 n sent by a rank inside the line.
//
// A rank's sends are written in the order in which a pipeline has them ready, farthest partition first.
#include <algorithm>

#include "trireme/collective/algorithms.h"
#include "trireme/collective/builder.h"

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

// Rank i sends every partition but its own inwards; back to the right those up to i, to the left those from i
// on. Towards it came as many. Partition 0, which is the largest, goes along the whole line and back.
Price price(const ScheduleSpec& spec) {
  if (spec.count == 0 || spec.world == 1) return {};
  const Chunking chunks{spec.count, spec.world};
  std::int64_t sent = 0, added = 0;
  for (int i = 0; i < spec.world; ++i) {
    const std::int64_t right = i < spec.world - 1 ? chunks.offset(i + 1) : 0;
    const std::int64_t left = i > 0 ? spec.count - chunks.offset(i) : 0;
    sent = std::max(sent, spec.count - chunks.size(i) + right + left);
    added = std::max(added, right + left);
  }
  const auto bytes = [&](std::int64_t elems) { return static_cast<double>(elems * spec.elem_bytes); };
  const std::int64_t rounds = 2 * (spec.world - 1);
  return {.rounds = rounds,
          .bytes_per_rank = bytes(sent),
          .reduce_bytes_per_rank = bytes(added),
          .serial_bytes = bytes(std::max(sent, rounds * chunks.size(0)))};
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
