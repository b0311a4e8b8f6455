// Hierarchical allreduce: local reduce-scatter, global allreduce, local allgather. Groups are the machines
// (or sockets) of ScheduleSpec::group_of; they need not be equal, nor their ranks consecutive.
//
// With G groups and C ranks in the smallest one the elements are cut in C pieces of G chunks. Piece j belongs
// to member j of every group: the other members send it theirs (one round), the G owners run a ring over the
// chunks of the piece, then each owner sends the piece to its group (one round). Members beyond C own
// nothing. Only 1/C of the bytes leaves a machine per rank. Rounds: 2 (G-1) + 2.
#include <algorithm>
#include <map>

#include "trireme/collective/applicable.h"
#include "trireme/collective/builder.h"
#include "trireme/collective/loads.h"

namespace trireme::collective {
namespace {

constexpr std::uint32_t kCollect = 1U << 30, kSpread = kCollect + 1;  // the ring counts from 0

struct Groups {
  std::vector<std::vector<int>> members;  // in order of the groups' first ranks
  std::vector<int> group, index;          // of every rank
  int num_pieces = 0;

  explicit Groups(const ScheduleSpec& spec) {
    std::map<std::int32_t, std::size_t> numbers;
    for (int r = 0; r < spec.world; ++r) {
      const auto [it, fresh] = numbers.emplace(spec.group_of[static_cast<std::size_t>(r)], members.size());
      if (fresh) members.emplace_back();
      group.push_back(static_cast<int>(it->second));
      index.push_back(static_cast<int>(members[it->second].size()));
      members[it->second].push_back(r);
    }
    num_pieces = spec.world;
    for (const auto& m : members) num_pieces = std::min(num_pieces, static_cast<int>(m.size()));
  }
  int num_groups() const { return static_cast<int>(members.size()); }
  const std::vector<int>& of(int g) const { return members[static_cast<std::size_t>(g)]; }
  int size(int g) const { return static_cast<int>(of(g).size()); }
  Chunking chunks(const ScheduleSpec& spec) const { return {spec.count, num_pieces * num_groups()}; }
};

Status applicable(const ScheduleSpec& spec) {
  TR_RETURN_IF_ERROR(one_input_per_rank(spec));
  if (static_cast<int>(spec.group_of.size()) != spec.world)
    return error(Code::kInvalid,
                 "[collective] hierarchical needs the group of every rank: got {}, expected {}; set group_of",
                 spec.group_of.size(), spec.world);
  return {};
}

class Writer {
 public:
  Writer(const Groups& groups, const ScheduleSpec& spec, int rank)
      : groups_(groups),
        b_(rank, groups.chunks(spec)),
        mine_(groups.of(groups.group[static_cast<std::size_t>(rank)])),
        group_(groups.group[static_cast<std::size_t>(rank)]),
        index_(groups.index[static_cast<std::size_t>(rank)]) {}

  Result<RankProgram> write() {
    collect();
    if (index_ < groups_.num_pieces) ring();
    spread();
    return b_.build();
  }

 private:
  ProgramBuilder::Place piece(int j) const {
    return b_.range(j * groups_.num_groups(), groups_.num_groups());
  }
  int size() const { return static_cast<int>(mine_.size()); }
  int member(int i) const { return mine_[static_cast<std::size_t>(i % size())]; }

  // Everybody begins with another owner.
  void collect() {
    const bool owner = index_ < groups_.num_pieces;
    for (int k = 1; k < size(); ++k)
      if (const int j = (index_ + k) % size(); j < groups_.num_pieces) b_.send(member(j), kCollect, piece(j));
    if (!owner || size() == 1) return;
    const auto own = piece(index_);
    const ProgramBuilder::Place via[2] = {b_.scratch(own.count), b_.scratch(size() > 2 ? own.count : 0)};
    for (int k = 1; k < size(); ++k)
      b_.recv_reduce(member(index_ + size() - k), kCollect, via[(k - 1) % 2], own, /*message_is_left=*/false);
  }

  void ring() {
    const int n = groups_.num_groups();
    const auto chunk = [&](int c) { return index_ * n + ((c % n) + n) % n; };
    const auto owner = [&](int g) { return groups_.of((g + n) % n)[static_cast<std::size_t>(index_)]; };
    const int next = owner(group_ + 1), prev = owner(group_ - 1);
    for (int round = 0; round < n - 1; ++round)
      b_.exchange_reduce(next, chunk(group_ - round), prev, chunk(group_ - round - 1));
    for (int round = 0; round < n - 1; ++round)
      b_.exchange_copy(next, chunk(group_ + 1 - round), prev, chunk(group_ - round));
  }

  void spread() {
    for (int k = 1; k < size(); ++k) {
      const int j = (index_ + size() - k) % size();
      if (j < groups_.num_pieces) b_.recv(member(j), kSpread, piece(j));
    }
    if (index_ >= groups_.num_pieces) return;
    for (int k = 1; k < size(); ++k) b_.send(member(index_ + k), kSpread, piece(index_));
  }

  const Groups& groups_;
  ProgramBuilder b_;
  const std::vector<int>& mine_;
  const int group_, index_;
};

Result<RankProgram> build(const ScheduleSpec& spec, int rank) {
  const Groups groups{spec};
  return Writer(groups, spec, rank).write();
}

// Chunk c of a piece starts in group c, is complete in group c-1 and goes round from there; a local round
// comes before the start and after the arrival in a group of more than one.
std::int64_t rounds_of(const Groups& groups, int c) {
  const int n = groups.num_groups();
  const auto local = [&](int g) { return groups.size((g + n) % n) > 1 ? 1 : 0; };
  std::int64_t after = 0;
  for (int hop = 0; hop < n; ++hop) after = std::max<std::int64_t>(after, hop + local(c - 1 + hop));
  return local(c) + (n - 1) + after;
}

// Every member sends the owners of its group their pieces and gets them back; the owners' rings as in
// ring.cc.
void add_loads(const Groups& groups, const Chunking& chunks, Loads& loads) {
  const int n = groups.num_groups();
  for (int g = 0; g < n; ++g)
    for (int j = 0; j < groups.num_pieces; ++j) {
      const int owner = groups.of(g)[static_cast<std::size_t>(j)];
      const std::int64_t piece = chunks.size(j * n, n);
      if (piece == 0) continue;
      for (const int member : groups.of(g)) {
        if (member == owner) continue;
        loads.add(member, owner, 1, piece);
        loads.add(owner, member, 1, piece);
      }
      if (n == 1) continue;
      const auto chunk = [&](int c) { return chunks.size(j * n + c % n); };
      std::int64_t num_chunks = 0;
      for (int c = 0; c < n; ++c) num_chunks += chunk(c) > 0 ? 1 : 0;
      const std::int64_t a = chunk(g + 1), b = chunk(g + 2);
      loads.add(owner, groups.of((g + 1) % n)[static_cast<std::size_t>(j)],
                2 * num_chunks - (a > 0 ? 1 : 0) - (b > 0 ? 1 : 0), 2 * piece - a - b);
    }
}

// The last of a machine's pieces and the chunks of the ring are added while nothing else comes in.
Price price(const ScheduleSpec& spec) {
  if (spec.count == 0 || spec.world == 1) return {};
  const Groups groups{spec};
  const Chunking chunks = groups.chunks(spec);
  const int n = groups.num_groups();
  const auto piece = [&](int j) { return chunks.size(j * n, n); };
  std::int64_t added = 0, rounds = 0;
  for (int r = 0; r < spec.world; ++r) {
    const int j = groups.index[static_cast<std::size_t>(r)], g = groups.group[static_cast<std::size_t>(r)];
    if (j >= groups.num_pieces) continue;
    const std::int64_t own = piece(j);
    added = std::max(added, (groups.size(g) - 1) * own + own - (n == 1 ? own : chunks.size(j * n + g)));
  }
  for (int c = 0; c < n && chunks.size(c) > 0; ++c) rounds = std::max(rounds, rounds_of(groups, c));
  const auto bytes = [&](std::int64_t elems) { return static_cast<double>(elems * spec.elem_bytes); };
  Loads loads(spec);
  add_loads(groups, chunks, loads);
  Price p{.rounds = rounds, .hops = rounds};
  p.reduce_bytes_per_rank = bytes(added);
  // The heaviest chain takes a whole piece in the local rounds and a chunk in those between.
  loads.fill(p, spec.elem_bytes, 2 * piece(0) + 2 * (n - 1) * chunks.size(0));
  p.exposed_reduce_bytes = bytes(std::min(added, piece(0) + (n - 1) * chunks.size(0)));
  p.between.hops = 2 * (n - 1);
  return p;
}

}  // namespace

extern const Algorithm kHierarchical{
    .name = "hierarchical",
    .doc = "reduce-scatter and allgather inside each machine, rings between machines",
    .kind = Kind::kAllreduce,
    .applicable = applicable,
    .build = build,
    .price = price,
    .fixed_order = false};

}  // namespace trireme::collective
