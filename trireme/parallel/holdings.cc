#include "trireme/parallel/holdings.h"

#include <algorithm>

namespace trireme::parallel {
namespace {

// Whether ranks at different coordinates of an axis hold different elements.
bool axis_cuts(const Holdings& h, const StateTensor& t, std::size_t axis) {
  if (t.whole.shape.num_elems() == 0) return false;
  if (!t.rows.empty() && h.mesh.axes[axis].name == kDataAxis) return true;
  return t.layout.axes[axis].cuts();
}

// The first of the ranks that hold what this one does: coordinate 0 along axes that do not cut.
int first_holder(const Holdings& h, const StateTensor& t, int rank) {
  if (t.only_rank >= 0) return t.only_rank;
  std::vector<int> at = h.mesh.coordinates(rank);
  for (std::size_t i = 0; i < at.size(); ++i)
    if (!axis_cuts(h, t, i)) at[i] = 0;
  return h.mesh.rank_of(at);
}

// Owners of rows have these; other axes cut what belongs to a row.
Status check_rows(const Holdings& h, const StateTensor& t) {
  const auto cuts_rows = [](const AxisLayout& a) {
    return a.cuts() && (a.kind != AxisLayout::Kind::kShard || a.dim == 0);
  };
  if (std::any_of(t.layout.axes.begin(), t.layout.axes.end(), cuts_rows))
    return error(Code::kInvalid, "[parallel] state '{}' has rows, which owners have: got the layout '{}'",
                 t.name, t.layout.to_text());
  TR_RETURN_IF_ERROR(check_layout(t.layout, h.mesh, t.whole));
  if (static_cast<int>(t.rows.size()) != h.mesh.size_of(kDataAxis) || t.whole.shape.rank() < 1)
    return error(Code::kInvalid, "[parallel] state '{}' of {} has runs of rows for {} replicas, the mesh {}",
                 t.name, t.whole.to_string(), t.rows.size(), h.mesh.size_of(kDataAxis));
  std::int64_t next = 0;
  for (const collective::LeafRun& run : t.rows) {
    if (run.first != next || run.count < 0)
      return error(Code::kInvalid, "[parallel] state '{}': rows {} to {} come after row {}", t.name,
                   run.first, run.first + run.count, next);
    next += run.count;
  }
  if (next == t.whole.shape[0]) return {};
  return error(Code::kInvalid, "[parallel] state '{}': its owners have {} rows of {}", t.name, next,
               t.whole.shape[0]);
}

Status check_tensor(const Holdings& h, const StateTensor& t) {
  if (t.only_rank >= h.mesh.num_ranks())
    return error(Code::kInvalid, "[parallel] state '{}' is of rank {}, and there are {}", t.name, t.only_rank,
                 h.mesh.num_ranks());
  if (t.only_rank >= 0) return {};
  if (!t.rows.empty()) return check_rows(h, t);
  const auto is_partial = [](const AxisLayout& a) { return a.kind == AxisLayout::Kind::kPartial; };
  if (std::any_of(t.layout.axes.begin(), t.layout.axes.end(), is_partial))
    return error(Code::kInvalid, "[parallel] state '{}' is laid out as '{}': partial values are no state",
                 t.name, t.layout.to_text());
  return check_layout(t.layout, h.mesh, t.whole);
}

}  // namespace

Status check_holdings(const Holdings& holdings) {
  TR_RETURN_IF_ERROR(check_mesh(holdings.mesh));
  const auto& all = holdings.tensors;
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (i > 0 && all[i - 1].name >= all[i].name)
      return error(Code::kInvalid, "[parallel] state '{}' comes after '{}', expected each once and by name",
                   all[i].name, all[i - 1].name);
    TR_RETURN_IF_ERROR(check_tensor(holdings, all[i]));
  }
  return {};
}

std::vector<Piece> pieces_held(const Holdings& holdings, std::size_t tensor, int rank) {
  const StateTensor& t = holdings.tensors[tensor];
  if (t.only_rank >= 0 && t.only_rank != rank) return {};
  if (t.only_rank >= 0 || t.whole.shape.num_elems() == 0) return {Piece::of_whole(t.name, t.whole)};
  if (t.rows.empty()) return pieces_of(t.layout, holdings.mesh, rank, t.name, t.whole);
  const collective::LeafRun run = t.rows[static_cast<std::size_t>(holdings.mesh.coordinate(rank, kDataAxis))];
  if (run.count == 0) return {};
  std::vector<Piece> pieces = pieces_of(t.layout, holdings.mesh, rank, t.name, t.whole);
  for (Piece& piece : pieces) {
    Box box = piece.box;
    box[0] = {run.first, run.first + run.count};
    piece = Piece::of_box(t.name, t.whole, std::move(box));
  }
  return pieces;
}

std::vector<FirstHeld> distinct_pieces(const Holdings& holdings, std::size_t tensor) {
  const StateTensor& t = holdings.tensors[tensor];
  std::vector<FirstHeld> out;
  for (int rank = 0; rank < holdings.mesh.num_ranks(); ++rank) {
    if (first_holder(holdings, t, rank) != rank) continue;
    for (Piece& piece : pieces_held(holdings, tensor, rank)) out.push_back({tensor, std::move(piece), rank});
  }
  return out;
}

std::vector<FirstHeld> distinct_pieces(const Holdings& holdings) {
  std::vector<FirstHeld> out;
  for (std::size_t t = 0; t < holdings.tensors.size(); ++t)
    for (FirstHeld& held : distinct_pieces(holdings, t)) out.push_back(std::move(held));
  return out;
}

std::vector<int> holders(const Holdings& holdings, std::size_t tensor, int rank) {
  const StateTensor& t = holdings.tensors[tensor];
  if (t.only_rank >= 0) return {t.only_rank};
  const int first = first_holder(holdings, t, rank);
  std::vector<int> out;
  for (int r = 0; r < holdings.mesh.num_ranks(); ++r)
    if (first_holder(holdings, t, r) == first) out.push_back(r);
  return out;
}

bool all_replicated(const Holdings& holdings) {
  return std::all_of(holdings.tensors.begin(), holdings.tensors.end(), [&](const StateTensor& t) {
    if (t.only_rank >= 0) return holdings.mesh.num_ranks() == 1;
    for (std::size_t i = 0; i < holdings.mesh.axes.size(); ++i)
      if (holdings.mesh.axes[i].size > 1 && axis_cuts(holdings, t, i)) return false;
    return true;
  });
}

}  // namespace trireme::parallel
