// Fixed-tree allreduce: the sum of V leaves along one fixed binary tree, whoever holds which leaves.
//
// Vocabulary. Every rank brings its maximal aligned subtrees (partials). The elements are cut in K chunks.
// For every chunk each node of the tree above the partials has an owner: the rank that holds the leaf reached
// from the node by descending along the bits of the chunk's target leaf t = floor(c V / K). So the owner of a
// node owns one of its children, the owner of the root holds leaf t, and the work rotates over the ranks with
// the chunk.
//   up:   at every node the owner of the other child sends it, the owner adds left + right;
//   down: the owner of the root sends the chunk along a binomial tree over all ranks.
// A node whose right half is missing is its left child. Rounds: at most ceil(log2 V) + floor(log2 P); with K
// = P and equal runs a rank sends about 2 (P-1)/P of the bytes, as a ring does.
#include <algorithm>
#include <tuple>

#include "trireme/collective/applicable.h"
#include "trireme/collective/binomial.h"
#include "trireme/collective/builder.h"
#include "trireme/collective/loads.h"
#include "trireme/collective/tree.h"

namespace trireme::collective {
namespace {

constexpr std::int64_t kMinChunkBytes = 64 << 10;
// Message numbers: the level of the child that travels, or kDown, within the chunk.
constexpr std::uint32_t kPartsPerChunk = 64, kDown = 63;

// The tree and its runs; one leaf per rank when the spec names none.
struct Forest {
  std::vector<LeafRun> one_each;
  std::span<const LeafRun> runs;
  std::int32_t num_leaves;
  int num_chunks;

  explicit Forest(const ScheduleSpec& spec) : runs(spec.leaf_runs), num_leaves(spec.num_leaves) {
    if (spec.leaf_runs.empty()) {
      for (int r = 0; r < spec.world; ++r) one_each.push_back({r, 1});
      runs = one_each;
      num_leaves = spec.world;
    }
    const std::int64_t fit = static_cast<std::int64_t>(spec.bytes()) / kMinChunkBytes;
    num_chunks = static_cast<int>(std::clamp<std::int64_t>(fit, 1, spec.world));
  }
  Forest(const Forest&) = delete;
  Forest& operator=(const Forest&) = delete;

  std::int32_t target(int chunk) const {
    return static_cast<std::int32_t>(static_cast<std::int64_t>(chunk) * num_leaves / num_chunks);
  }
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

Status applicable(const ScheduleSpec& spec) {
  if (spec.leaf_runs.empty()) return {};
  return check_leaf_runs(spec.leaf_runs, spec.world, spec.num_leaves);
}

// A node whose value this rank has, and where.
struct Held {
  TreeNode node;
  ProgramBuilder::Place place;
};

// Writes level by level, all chunks of a level together: sends leave in program order, and no chunk waits for
// another that is a level ahead.
class TreeWriter {
 public:
  TreeWriter(const Forest& forest, int rank, ProgramBuilder& b, std::span<const TreeNode> partials)
      : forest_(forest), rank_(rank), b_(b), chunks_(static_cast<std::size_t>(forest.num_chunks)) {
    for (int c = 0; c < forest.num_chunks; ++c) {
      ChunkState& chunk = chunks_[static_cast<std::size_t>(c)];
      chunk.target = forest.target(c);
      for (std::size_t p = 0; p < partials.size(); ++p)
        chunk.held.push_back({partials[p], b.partial(static_cast<int>(p), c)});
    }
  }

  void write_up() {
    for (int level = 0; level < root_level(forest_.num_leaves); ++level)
      for (int c = 0; c < forest_.num_chunks; ++c) climb(level, c);
  }

  // Sends leave in program order, so they are written in the order of the time at which a tree has them
  // ready: every tree reaches the child at distance 2^j in its round j. Each rank begins with another chunk.
  void write_down(int world) {
    struct Send {
      int round, turn, chunk, child;
    };
    std::vector<Send> sends;
    for (int c = 0; c < forest_.num_chunks; ++c) {
      const ChunkState& chunk = chunks_[static_cast<std::size_t>(c)];
      const Binomial down{world, forest_.root_owner(chunk.target)};
      if (rank_ == down.root)
        b_.copy(b_.chunk(c), chunk.held.front().place);
      else
        b_.recv(down.parent(rank_), part_of(c, kDown), b_.chunk(c));
      const int turn = down.relative(rank_);
      down.for_children(rank_, [&](int child) {
        const int distance = down.relative(child) - turn;
        sends.push_back({static_cast<int>(std::bit_width(static_cast<unsigned>(distance))), turn, c, child});
      });
    }
    std::stable_sort(sends.begin(), sends.end(), [](const Send& a, const Send& b) {
      return std::tie(a.round, a.turn) < std::tie(b.round, b.turn);
    });
    for (const Send& s : sends) b_.send(s.child, part_of(s.chunk, kDown), b_.chunk(s.chunk));
  }

 private:
  struct ChunkState {
    std::int32_t target = 0;
    std::vector<Held> held;
    // Messages from the left and from the right join different nodes of this rank: each side has its own
    // scratch, so that neither waits for the other.
    ProgramBuilder::Place via[2];
    bool have_via[2] = {false, false};
  };

  // Takes every node held at `level` one level up: merged here, joined by the sibling's message, or sent
  // away.
  void climb(int level, int c) {
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

  static std::uint32_t part_of(int chunk, std::uint32_t number) {
    return static_cast<std::uint32_t>(chunk) * kPartsPerChunk + number;
  }
  const ProgramBuilder::Place& via(ChunkState& chunk, bool left, std::int64_t elems) {
    if (!chunk.have_via[left]) chunk.via[left] = b_.scratch(elems);
    chunk.have_via[left] = true;
    return chunk.via[left];
  }

  const Forest& forest_;
  int rank_;
  ProgramBuilder& b_;
  std::vector<ChunkState> chunks_;
};

Result<RankProgram> build(const ScheduleSpec& spec, int rank) {
  const Forest forest{spec};
  const auto partials = maximal_subtrees(forest.runs[static_cast<std::size_t>(rank)], forest.num_leaves);
  ProgramBuilder b{spec, rank, forest.num_chunks, static_cast<int>(partials.size())};
  if (spec.count == 0) return b.build();
  TreeWriter writer{forest, rank, b, partials};
  writer.write_up();
  writer.write_down(spec.world);
  return b.build();
}

// Adds up what one chunk costs every rank by walking the tree as deep as it crosses ranks.
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
  Depth visit(TreeNode node) {
    const std::int64_t end =
        std::min<std::int64_t>(node.first + (std::int64_t{1} << node.level), forest.num_leaves);
    if (rank_of_leaf(forest.runs, node.first) ==
        rank_of_leaf(forest.runs, static_cast<std::int32_t>(end - 1)))
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
};

// Several chunks are under way at a time: one addition per level is on the way to the sum.
Price price(const ScheduleSpec& spec) {
  if (spec.count == 0) return {};
  const Forest forest{spec};
  const Chunking chunks{spec.count, forest.num_chunks};
  Loads loads(spec), up_loads(spec), down_loads(spec);
  std::vector<std::int64_t> reduced(static_cast<std::size_t>(spec.world));
  std::int64_t heaviest = 0, heaviest_up = 0;
  Price p;
  for (int c = 0; c < forest.num_chunks; ++c) {
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

}  // namespace

extern const Algorithm kFixedTree{
    .name = "fixed-tree",
    .doc = "the fixed binary tree over logical shards: same bits for any number of ranks",
    .kind = Kind::kAllreduce,
    .applicable = applicable,
    .build = build,
    .price = price,
    .fixed_order = true};

}  // namespace trireme::collective
