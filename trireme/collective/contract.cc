#include "trireme/collective/contract.h"

#include <set>

namespace trireme::collective {
namespace {

std::size_t at(const ScheduleSpec& spec, int from, int to) {
  return static_cast<std::size_t>(from) * static_cast<std::size_t>(spec.world) + static_cast<std::size_t>(to);
}

bool has_blocks(Kind k) {
  return k == Kind::kGather || k == Kind::kScatter || k == Kind::kAllgather || k == Kind::kReduceScatter;
}

Status check_counts(const ScheduleSpec& spec) {
  const auto world = static_cast<std::size_t>(spec.world);
  const std::size_t want = spec.kind == Kind::kAllToAll ? world * world : has_blocks(spec.kind) ? world : 0;
  if (spec.counts.size() != want)
    return error(Code::kInvalid, "[collective] {} over {} ranks has {} counts: expected {} or none",
                 kind_name(spec.kind), spec.world, spec.counts.size(), want);
  std::int64_t sum = 0;
  for (const std::int64_t c : spec.counts) {
    if (c < 0) return error(Code::kInvalid, "[collective] a count is negative: got {}", c);
    sum += c;
  }
  if (sum != spec.count)
    return error(Code::kInvalid, "[collective] counts of {} add up to {}: expected count, {}",
                 kind_name(spec.kind), sum, spec.count);
  return {};
}

Status check_edges(const ScheduleSpec& spec) {
  std::set<std::pair<int, int>> seen;
  std::int64_t sum = 0;
  for (const Edge& e : spec.edges) {
    if (e.from < 0 || e.from >= spec.world || e.to < 0 || e.to >= spec.world || e.count < 0)
      return error(Code::kInvalid, "[collective] edge {} -> {} of {} elements is not between ranks 0..{}",
                   e.from, e.to, e.count, spec.world - 1);
    if (!seen.emplace(e.from, e.to).second)
      return error(Code::kInvalid, "[collective] edge {} -> {} is there twice: expected one per pair", e.from,
                   e.to);
    sum += e.count;
  }
  if (sum != spec.count)
    return error(Code::kInvalid, "[collective] edges add up to {}: expected count, {}", sum, spec.count);
  return {};
}

std::vector<Edge> edges_of(const ScheduleSpec& spec, int rank, std::int32_t Edge::*end) {
  std::vector<Edge> edges;
  for (const Edge& e : spec.edges)
    if (e.*end == rank) edges.push_back(e);
  return edges;
}

// Element of the edge's first among everything that its sender sends.
std::int64_t edge_element(const ScheduleSpec& spec, const Edge& edge) {
  std::int64_t element = 0;
  for (const Edge& e : spec.edges) {
    if (e.from != edge.from) continue;
    if (e.to == edge.to) break;
    element += e.count;
  }
  return element;
}

// Every block at its place, or only that of rank `only` (-1: all).
std::vector<Holding> blocks(const ScheduleSpec& spec, int only) {
  const Chunking cut = rank_blocks(spec);
  std::vector<Holding> all;
  for (int q = 0; q < spec.world; ++q)
    if (only < 0 || q == only) all.push_back({0, cut.offset(q), cut.size(q), q, cut.offset(q)});
  return all;
}

}  // namespace

Status check_spec(const ScheduleSpec& spec) {
  if (spec.world < 1 || spec.count < 0)
    return error(Code::kInvalid,
                 "[collective] got {} ranks and {} elements, expected at least 1 rank and 0 or more elements",
                 spec.world, spec.count);
  if (has_root(spec.kind) && (spec.root < 0 || spec.root >= spec.world))
    return error(Code::kInvalid, "[collective] {} root is not a rank: got {}, expected 0..{}",
                 kind_name(spec.kind), spec.root, spec.world - 1);
  if (!spec.counts.empty()) TR_RETURN_IF_ERROR(check_counts(spec));
  if (!spec.group_of.empty() && static_cast<int>(spec.group_of.size()) != spec.world)
    return error(Code::kInvalid, "[collective] got {} groups, expected one per rank ({})",
                 spec.group_of.size(), spec.world);
  return spec.kind == Kind::kNeighbours ? check_edges(spec) : Status();
}

Chunking rank_blocks(const ScheduleSpec& spec) {
  return spec.counts.empty() ? Chunking{spec.count, spec.world} : Chunking::of_sizes(spec.counts);
}

std::int64_t pair_count(const ScheduleSpec& spec, int from, int to) {
  return spec.counts.empty() ? Chunking{spec.count, spec.world}.size(to) : spec.counts[at(spec, from, to)];
}

std::int64_t send_offset(const ScheduleSpec& spec, int from, int to) {
  if (spec.counts.empty()) return Chunking{spec.count, spec.world}.offset(to);
  std::int64_t sum = 0;
  for (int q = 0; q < to; ++q) sum += spec.counts[at(spec, from, q)];
  return sum;
}

std::int64_t recv_offset(const ScheduleSpec& spec, int from, int to) {
  if (spec.counts.empty()) return from * pair_count(spec, 0, to);
  std::int64_t sum = 0;
  for (int q = 0; q < from; ++q) sum += spec.counts[at(spec, q, to)];
  return sum;
}

std::vector<Edge> edges_out(const ScheduleSpec& spec, int rank) { return edges_of(spec, rank, &Edge::from); }
std::vector<Edge> edges_in(const ScheduleSpec& spec, int rank) { return edges_of(spec, rank, &Edge::to); }

int caller_buffers(const ScheduleSpec& spec, int rank) {
  if (spec.kind == Kind::kAllToAll) return 1;
  if (spec.kind != Kind::kNeighbours) return 0;
  return static_cast<int>(edges_out(spec, rank).size() + edges_in(spec, rank).size());
}

std::int64_t caller_elems(const ScheduleSpec& spec, int rank, int buffer) {
  switch (spec.kind) {
    case Kind::kGather:
    case Kind::kScatter:
      return rank == spec.root ? spec.count : rank_blocks(spec).size(rank);
    case Kind::kAllToAll:
      return buffer == 0 ? recv_offset(spec, spec.world, rank) : send_offset(spec, rank, spec.world);
    case Kind::kNeighbours: {
      if (buffer == 0) return 0;
      const auto out = edges_out(spec, rank), in = edges_in(spec, rank);
      const auto i = static_cast<std::size_t>(buffer) - 1;
      if (i < out.size()) return out[i].count;
      return i - out.size() < in.size() ? in[i - out.size()].count : -1;
    }
    default:
      return spec.count;
  }
}

Stretch result_of(const ScheduleSpec& spec, int rank) {
  if (spec.kind == Kind::kAllreduce || (spec.kind == Kind::kReduce && rank == spec.root))
    return {0, spec.count};
  if (spec.kind != Kind::kReduceScatter) return {};
  const Chunking cut = rank_blocks(spec);
  return {cut.offset(rank), cut.size(rank)};
}

std::vector<Holding> brought(const ScheduleSpec& spec, int rank) {
  switch (spec.kind) {
    case Kind::kBarrier:
      return {};
    case Kind::kAllgather:
      return blocks(spec, rank);
    case Kind::kGather: {
      auto own = blocks(spec, rank);
      if (rank != spec.root) own[0].offset = 0;
      return own;
    }
    case Kind::kScatter:
      if (rank != spec.root) return {};
      break;
    case Kind::kAllToAll:
      return {{1, 0, caller_elems(spec, rank, 1), rank, 0}};
    case Kind::kNeighbours: {
      std::vector<Holding> all;
      for (const Edge& e : edges_out(spec, rank))
        all.push_back({static_cast<int>(all.size()) + 1, 0, e.count, rank, edge_element(spec, e)});
      return all;
    }
    case Kind::kAllreduce:
    case Kind::kReduce:
    case Kind::kReduceScatter:
    case Kind::kBroadcast:  // what the others have is overwritten
      break;
  }
  return {{0, 0, spec.count, rank, 0}};
}

std::vector<Holding> promised(const ScheduleSpec& spec, int rank) {
  switch (spec.kind) {
    case Kind::kBarrier:
      return {};
    case Kind::kAllreduce:
    case Kind::kReduce:
    case Kind::kReduceScatter: {
      const Stretch s = result_of(spec, rank);
      return {{0, s.offset, s.count, Holding::kSum, s.offset}};
    }
    case Kind::kBroadcast:
      return {{0, 0, spec.count, spec.root, 0}};
    case Kind::kAllgather:
      return blocks(spec, -1);
    case Kind::kGather:
      return rank == spec.root ? blocks(spec, -1) : blocks(spec, spec.world);
    case Kind::kScatter: {
      if (rank == spec.root) return {{0, 0, spec.count, rank, 0}};
      const Chunking cut = rank_blocks(spec);
      return {{0, 0, cut.size(rank), spec.root, cut.offset(rank)}};
    }
    case Kind::kAllToAll: {
      std::vector<Holding> all;
      for (int q = 0; q < spec.world; ++q)
        all.push_back(
            {0, recv_offset(spec, q, rank), pair_count(spec, q, rank), q, send_offset(spec, q, rank)});
      return all;
    }
    case Kind::kNeighbours: {
      std::vector<Holding> all;
      int buffer = static_cast<int>(edges_out(spec, rank).size());
      for (const Edge& e : edges_in(spec, rank))
        all.push_back({++buffer, 0, e.count, e.from, edge_element(spec, e)});
      return all;
    }
  }
  return {};
}

}  // namespace trireme::collective
