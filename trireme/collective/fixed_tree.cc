// Fixed tree: sums of V leaves along one fixed binary tree, whoever holds which leaves: an allreduce, and a
// reduce-scatter with the same bits.
//
// Vocabulary. Every rank brings its maximal aligned subtrees (partials). The elements are cut in chunks. For
// every chunk each node of the tree above the partials has an owner: the rank that holds the leaf reached
// from the node by descending along the bits of the chunk's target leaf. So the owner of a node owns one of
// its children, and the owner of the root holds the target leaf. A node whose right half is missing is its
// left child.
//   up:   at every node the owner of the other child sends it, the owner adds left + right;
//   down: the owner of the root sends the chunk along a binomial tree over all ranks (allreduce).
//
// Allreduce: K chunks, chunk c with target leaf t = floor(c V / K), so that the work rotates over the ranks
// with the chunk. Rounds: at most ceil(log2 V) + floor(log2 P); with K = P and equal runs a rank sends about
// 2 (P-1)/P of the bytes, as a ring does.
//
// Reduce-scatter: a chunk is the block of a rank, and its target that rank's first leaf. With equal runs a
// rank sends (P-1)/P of the bytes. A rank without leaves gets its block from the owner of the root. With a
// leaf per rank every rank sends every other its block at once, in one message, and adds what it gets for its
// own in the order of the tree.
#include <algorithm>
#include <bit>
#include <span>
#include <tuple>
#include <utility>
#include <vector>

#include "trireme/collective/applicable.h"
#include "trireme/collective/binomial.h"
#include "trireme/collective/builder.h"
#include "trireme/collective/contract.h"
#include "trireme/collective/loads.h"
#include "trireme/collective/tree.h"

namespace trireme::collective {
namespace {

Status applicable(const ScheduleSpec& spec) {
  if (spec.leaf_runs.empty()) return {};
  return check_leaf_runs(spec.leaf_runs, spec.world, spec.num_leaves);
}

// The tree, its runs (one leaf per rank when the spec names none) and a target leaf per chunk.
struct Forest {
  std::vector<LeafRun> one_each;
  std::span<const LeafRun> runs;
  std::int32_t num_leaves;
  std::vector<std::int32_t> targets;

  explicit Forest(const ScheduleSpec& spec) : runs(spec.leaf_runs), num_leaves(spec.num_leaves) {
    if (!spec.leaf_runs.empty()) return;
    for (int r = 0; r < spec.world; ++r) one_each.push_back({r, 1});
    runs = one_each;
    num_leaves = spec.world;
  }
  Forest(const Forest&) = delete;
  Forest& operator=(const Forest&) = delete;

  int num_chunks() const { return static_cast<int>(targets.size()); }
  std::int32_t target(int chunk) const { return targets[static_cast<std::size_t>(chunk)]; }
  int owner(TreeNode node, std::int32_t target_leaf) const {
    std::int32_t at = node.first;
    for (int level = node.level - 1; level >= 0; --level) {
      const std::int32_t half = std::int32_t{1} << level;
      if ((target_leaf & half) != 0 && at + half < num_leaves) at += half;
    }
    return rank_of_leaf(runs, at);
  }
  int root_owner(std::int32_t target_leaf) const { return rank_of_leaf(runs, target_leaf); }
};

// Writes level by level, all chunks of a level together: sends leave in program order, and no chunk waits for
// another that is a level ahead.
class TreeWriter {
 public:
  // Message numbers: the level of the child that travels, or kDown, within the chunk.
  static constexpr std::uint32_t kPartsPerChunk = 64, kDown = 63;
  static std::uint32_t part_of(int chunk, std::uint32_t number) {
    return static_cast<std::uint32_t>(chunk) * kPartsPerChunk + number;
  }

  TreeWriter(const Forest& forest, int rank, ProgramBuilder& b, std::span<const TreeNode> partials);
  void write_up();
  // After write_up, on the rank that owns the root: where the sum of a chunk is.
  const ProgramBuilder::Place& sum(int chunk) const {
    return chunks_[static_cast<std::size_t>(chunk)].held.front().place;
  }

 private:
  // A node whose value this rank has, and where.
  struct Held {
    TreeNode node;
    ProgramBuilder::Place place;
  };
  struct ChunkState {
    std::int32_t target = 0;
    std::vector<Held> held;
    // Messages from the left and from the right join different nodes of this rank: each side has its own
    // scratch, so that neither waits for the other.
    ProgramBuilder::Place via[2];
    bool have_via[2] = {false, false};
  };

  void climb(int level, int c);
  const ProgramBuilder::Place& via(ChunkState& chunk, bool left, std::int64_t elems);

  const Forest& forest_;
  int rank_;
  ProgramBuilder& b_;
  std::vector<ChunkState> chunks_;
};

// Adds up what one chunk costs every rank on the way up by walking the tree as deep as it crosses ranks.
struct TreeTally {
  const Forest& forest;
  std::int32_t target;
  std::int64_t elems;
  Loads &loads, &up_loads;
  std::vector<std::int64_t>& reduced;

  // Messages on the longest path into a node, and those between machines on the path with most of them.
  struct Depth {
    int messages = 0, crossings = 0;
    void join(const Depth& other) {
      messages = std::max(messages, other.messages);
      crossings = std::max(crossings, other.crossings);
    }
  };
  Depth visit(TreeNode node);
};

TreeWriter::TreeWriter(const Forest& forest, int rank, ProgramBuilder& b, std::span<const TreeNode> partials)
    : forest_(forest), rank_(rank), b_(b), chunks_(static_cast<std::size_t>(forest.num_chunks())) {
  for (int c = 0; c < forest.num_chunks(); ++c) {
    ChunkState& chunk = chunks_[static_cast<std::size_t>(c)];
    chunk.target = forest.target(c);
    for (std::size_t p = 0; p < partials.size(); ++p)
      chunk.held.push_back({partials[p], b.partial(static_cast<int>(p), c)});
  }
}

void TreeWriter::write_up() {
  for (int level = 0; level < root_level(forest_.num_leaves); ++level)
    for (int c = 0; c < forest_.num_chunks(); ++c) climb(level, c);
}

const ProgramBuilder::Place& TreeWriter::via(ChunkState& chunk, bool left, std::int64_t elems) {
  if (!chunk.have_via[left]) chunk.via[left] = b_.scratch(elems);
  chunk.have_via[left] = true;
  return chunk.via[left];
}

// Takes every node held at `level` one level up: merged here, joined by the sibling's message, or sent
// away.
void TreeWriter::climb(int level, int c) {
  ChunkState& chunk = chunks_[static_cast<std::size_t>(c)];
  auto& held = chunk.held;
  for (std::size_t i = 0; i < held.size();) {
    if (held[i].node.level != level) {
      ++i;
      continue;
    }
    Held& mine = held[i];
    const TreeNode up = parent_of(mine.node), other = sibling_of(mine.node);
    const bool other_is_left = other.first < mine.node.first;
    if (other.first >= forest_.num_leaves) {
      mine.node = up;
    } else if (i + 1 < held.size() && held[i + 1].node == other) {
      b_.reduce(mine.place, held[i + 1].place);
      mine.node = up;
      held.erase(held.begin() + static_cast<std::ptrdiff_t>(i) + 1);
    } else if (const int owner = forest_.owner(up, chunk.target); owner != rank_) {
      b_.send(owner, part_of(c, static_cast<std::uint32_t>(level)), mine.place);
      held.erase(held.begin() + static_cast<std::ptrdiff_t>(i));
      continue;
    } else {
      b_.recv_reduce(forest_.owner(other, chunk.target), part_of(c, static_cast<std::uint32_t>(level)),
                     via(chunk, other_is_left, mine.place.count), mine.place, other_is_left);
      mine.node = up;
    }
    ++i;
  }
}

TreeTally::Depth TreeTally::visit(TreeNode node) {
  const std::int64_t end =
      std::min<std::int64_t>(node.first + (std::int64_t{1} << node.level), forest.num_leaves);
  if (rank_of_leaf(forest.runs, node.first) == rank_of_leaf(forest.runs, static_cast<std::int32_t>(end - 1)))
    return {};
  const TreeNode left{node.first, node.level - 1};
  const TreeNode right = sibling_of(left);
  Depth left_depth = visit(left);
  if (right.first >= forest.num_leaves) return left_depth;
  Depth right_depth = visit(right);
  const int left_owner = forest.owner(left, target), right_owner = forest.owner(right, target);
  const int owner = forest.owner(node, target);
  reduced[static_cast<std::size_t>(owner)] += elems;
  if (left_owner != right_owner) {
    const int from = owner == right_owner ? left_owner : right_owner;
    Depth& sender = owner == right_owner ? left_depth : right_depth;
    loads.add(from, owner, 1, elems);
    up_loads.add(from, owner, 1, elems);
    sender.messages += 1;
    sender.crossings += loads.crosses(from, owner) ? 1 : 0;
  }
  left_depth.join(right_depth);
  return left_depth;
}

// ---- Allreduce

constexpr std::int64_t kMinChunkBytes = 64 << 10;

struct ChunkedForest : Forest {
  explicit ChunkedForest(const ScheduleSpec& spec) : Forest(spec) {
    const std::int64_t fit = static_cast<std::int64_t>(spec.bytes()) / kMinChunkBytes,
                       chunks = std::clamp<std::int64_t>(fit, 1, spec.world);
    for (std::int64_t c = 0; c < chunks; ++c)
      targets.push_back(static_cast<std::int32_t>(c * num_leaves / chunks));
  }
};

// Sends leave in program order, so they are written in the order of the time at which a tree has them ready:
// every tree reaches the child at distance 2^j in its round j. Each rank begins with another chunk.
void write_down(const Forest& forest, const TreeWriter& writer, int rank, int world, ProgramBuilder& b) {
  struct Send {
    int round, turn, chunk, child;
  };
  std::vector<Send> sends;
  for (int c = 0; c < forest.num_chunks(); ++c) {
    const Binomial down{world, forest.root_owner(forest.target(c))};
    if (rank == down.root)
      b.copy(b.chunk(c), writer.sum(c));
    else
      b.recv(down.parent(rank), TreeWriter::part_of(c, TreeWriter::kDown), b.chunk(c));
    const int turn = down.relative(rank);
    down.for_children(rank, [&](int child) {
      const int distance = down.relative(child) - turn;
      sends.push_back({static_cast<int>(std::bit_width(static_cast<unsigned>(distance))), turn, c, child});
    });
  }
  std::stable_sort(sends.begin(), sends.end(), [](const Send& a, const Send& b) {
    return std::tie(a.round, a.turn) < std::tie(b.round, b.turn);
  });
  for (const Send& s : sends)
    b.send(s.child, TreeWriter::part_of(s.chunk, TreeWriter::kDown), b.chunk(s.chunk));
}

Result<RankProgram> build_allreduce(const ScheduleSpec& spec, int rank) {
  const ChunkedForest forest{spec};
  const auto partials = maximal_subtrees(forest.runs[static_cast<std::size_t>(rank)], forest.num_leaves);
  ProgramBuilder b{spec, rank, forest.num_chunks(), static_cast<int>(partials.size())};
  if (spec.count == 0) return b.build();
  TreeWriter writer{forest, rank, b, partials};
  writer.write_up();
  write_down(forest, writer, rank, spec.world, b);
  return b.build();
}

// Several chunks are under way at a time: one addition per level is on the way to the sum.
Price price_allreduce(const ScheduleSpec& spec) {
  if (spec.count == 0) return {};
  const ChunkedForest forest{spec};
  const Chunking chunks{spec.count, forest.num_chunks()};
  Loads loads(spec), up_loads(spec), down_loads(spec);
  std::vector<std::int64_t> reduced(static_cast<std::size_t>(spec.world));
  std::int64_t heaviest = 0, heaviest_up = 0;
  Price p;
  for (int c = 0; c < forest.num_chunks(); ++c) {
    TreeTally tally{forest, forest.target(c), chunks.size(c), loads, up_loads, reduced};
    const auto up = tally.visit({0, root_level(forest.num_leaves)});
    const Binomial down{spec.world, forest.root_owner(tally.target)};
    down.for_edges([&](int parent, int child) {
      loads.add(parent, child, 1, tally.elems);
      down_loads.add(parent, child, 1, tally.elems);
    });
    const int depth = up.messages + down.depth();
    p.rounds = p.hops = std::max<std::int64_t>(p.rounds, depth);
    p.between.hops = std::max<std::int64_t>(p.between.hops, up.crossings + down.crossings(loads));
    heaviest = std::max(heaviest, depth * tally.elems);
    heaviest_up = std::max(heaviest_up, up.messages * tally.elems);
  }
  const auto bytes = [&](std::int64_t elems) { return static_cast<double>(elems * spec.elem_bytes); };
  loads.fill(p, spec.elem_bytes, heaviest);
  // Up and down are phases: the links of the busiest rank of each work one after the other.
  const double in_phases = bytes(std::max(up_loads.busiest(), heaviest_up) +
                                 std::max(down_loads.busiest(), heaviest - heaviest_up));
  p.waiting_bytes = std::max(0.0, in_phases - p.serial_bytes);
  p.reduce_bytes_per_rank = bytes(*std::max_element(reduced.begin(), reduced.end()));
  p.exposed_reduce_bytes = std::min(p.reduce_bytes_per_rank, bytes(heaviest_up));
  return p;
}

// ---- Reduce-scatter

using Place = ProgramBuilder::Place;

// Adds `inputs` up; the sum is where input `own` was, which keeps the sum of every subtree that it is in.
void add_tree(ProgramBuilder& b, std::vector<Place> inputs, int own) {
  for (std::size_t width = inputs.size(); width > 1; width = (width + 1) / 2) {
    for (std::size_t i = 0; i < width / 2; ++i) {
      const Place left = inputs[2 * i], right = inputs[2 * i + 1];
      const bool right_is_own = static_cast<std::size_t>(own) == 2 * i + 1;
      if (right_is_own)
        b.reduce_left(right, left);
      else
        b.reduce(left, right);
      inputs[i] = right_is_own ? right : left;
    }
    if (width % 2 == 1) inputs[width / 2] = inputs[width - 1];
    own /= 2;
  }
}

Result<RankProgram> build_at_once(const ScheduleSpec& spec, int rank) {
  ProgramBuilder b{rank, rank_blocks(spec), /*num_partials=*/1};
  b.copy(b.chunk(rank), b.partial(0, rank));
  std::vector<Place> inputs(static_cast<std::size_t>(spec.world), b.chunk(rank));
  for (int k = 1; k < spec.world; ++k) {
    const int to = (rank + k) % spec.world, from = (rank + spec.world - k) % spec.world;
    b.send(to, 0, b.partial(0, to));
    Place& in = inputs[static_cast<std::size_t>(from)];
    in = b.scratch(b.chunk(rank).count);
    b.recv(from, 0, in);
  }
  add_tree(b, std::move(inputs), rank);
  return b.build();
}

Price price_at_once(const ScheduleSpec& spec) {
  const Chunking blocks = rank_blocks(spec);
  Price p{.flow = Flow::kMixed};
  Loads loads(spec);
  for (int from = 0; from < spec.world; ++from)
    for (int to = 0; to < spec.world; ++to) {
      if (from == to || blocks.size(to) == 0) continue;
      loads.add(from, to, 1, blocks.size(to));
      p.rounds = p.hops = 1;
      if (loads.crosses(from, to)) p.between.hops = 1;
    }
  loads.fill(p, spec.elem_bytes, 0);
  const auto block_bytes = static_cast<double>(blocks.max_size() * spec.elem_bytes);
  p.reduce_bytes_per_rank = static_cast<double>(spec.world - 1) * block_bytes;
  // Most is added while further messages come in; what comes last is added along the way to the root.
  for (int width = spec.world; width > 1; width = (width + 1) / 2) p.exposed_reduce_bytes += block_bytes;
  return p;
}

struct ForestOfBlocks : Forest {
  explicit ForestOfBlocks(const ScheduleSpec& spec) : Forest(spec) {
    for (const LeafRun& run : runs) targets.push_back(std::min(run.first, num_leaves - 1));
  }
};

Result<RankProgram> build_up(const ScheduleSpec& spec, int rank) {
  const ForestOfBlocks forest{spec};
  const auto partials = maximal_subtrees(forest.runs[static_cast<std::size_t>(rank)], forest.num_leaves);
  ProgramBuilder b{rank, rank_blocks(spec), static_cast<int>(partials.size())};
  if (spec.count == 0) return b.build();
  TreeWriter writer{forest, rank, b, partials};
  writer.write_up();
  for (int to = 0; to < spec.world; ++to) {
    const int root = forest.root_owner(forest.target(to));
    const std::uint32_t part = TreeWriter::part_of(to, TreeWriter::kDown);
    if (root == rank && to == rank)
      b.copy(b.chunk(to), writer.sum(to));
    else if (root == rank)
      b.send(to, part, writer.sum(to));
    else if (to == rank)
      b.recv(root, part, b.chunk(to));
  }
  return b.build();
}

Price price_up(const ScheduleSpec& spec) {
  const ForestOfBlocks forest{spec};
  const Chunking blocks = rank_blocks(spec);
  Loads loads(spec), up_loads(spec);
  std::vector<std::int64_t> reduced(static_cast<std::size_t>(spec.world));
  Price p{.flow = Flow::kMixed};
  std::int64_t heaviest = 0;
  for (int to = 0; to < spec.world; ++to) {
    if (blocks.size(to) == 0) continue;
    TreeTally tally{forest, forest.target(to), blocks.size(to), loads, up_loads, reduced};
    auto depth = tally.visit({0, root_level(forest.num_leaves)});
    const int root = forest.root_owner(tally.target);
    if (root != to) {
      loads.add(root, to, 1, tally.elems);
      depth.messages += 1;
      depth.crossings += loads.crosses(root, to) ? 1 : 0;
    }
    p.rounds = p.hops = std::max<std::int64_t>(p.rounds, depth.messages);
    p.between.hops = std::max<std::int64_t>(p.between.hops, depth.crossings);
    heaviest = std::max(heaviest, depth.messages * tally.elems);
  }
  loads.fill(p, spec.elem_bytes, heaviest);
  const auto bytes = [&](std::int64_t elems) { return static_cast<double>(elems * spec.elem_bytes); };
  p.reduce_bytes_per_rank = bytes(*std::max_element(reduced.begin(), reduced.end()));
  p.exposed_reduce_bytes = std::min(p.reduce_bytes_per_rank, bytes(heaviest));
  return p;
}

bool has_leaf_each(const ScheduleSpec& spec) {
  return std::all_of(spec.leaf_runs.begin(), spec.leaf_runs.end(),
                     [](const LeafRun& run) { return run.count == 1; });
}

Result<RankProgram> build_scatter(const ScheduleSpec& spec, int rank) {
  return has_leaf_each(spec) ? build_at_once(spec, rank) : build_up(spec, rank);
}

Price price_scatter(const ScheduleSpec& spec) {
  return has_leaf_each(spec) ? price_at_once(spec) : price_up(spec);
}

}  // namespace

extern const Algorithm kFixedTree{
    .name = "fixed-tree",
    .doc = "the fixed binary tree over logical shards: same bits for any number of ranks",
    .kind = Kind::kAllreduce,
    .applicable = applicable,
    .build = build_allreduce,
    .price = price_allreduce,
    .fixed_order = true};

extern const Algorithm kFixedTreeReduceScatter{
    .name = "fixed-tree",
    .doc = "every block goes to its rank along the fixed tree over logical shards: bits of the allreduce",
    .kind = Kind::kReduceScatter,
    .applicable = applicable,
    .build = build_scatter,
    .price = price_scatter,
    .fixed_order = true};

}  // namespace trireme::collective
