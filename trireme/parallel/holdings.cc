#include "trireme/parallel/holdings.h"

#include <algorithm>

#include "trireme/base/check.h"

namespace trireme::parallel {
namespace {

// Whether ranks at different coordinates of an axis hold different elements.
bool axis_cuts(const Holdings& h, const StateTensor& t, std::size_t axis) {
  if (t.whole.shape.num_elems() == 0) return false;
  if ((!t.rows.empty() || !t.ranges.empty()) && h.mesh.axes[axis].name == kDataAxis) return true;
  return t.layout.axes[axis].cuts();
}

bool is_at_places(const StateTensor& t, std::size_t axis) {
  return t.whole.shape.num_elems() > 0 && axis < t.layout.axes.size() &&
         t.layout.axes[axis].kind == AxisLayout::Kind::kAt;
}

// The first of the ranks that hold what this one does, or would: coordinate 0 along axes that do not cut, or
// the first place that has it.
int first_holder(const Holdings& h, const StateTensor& t, int rank) {
  if (t.only_rank >= 0) return t.only_rank;
  std::vector<int> at = h.mesh.coordinates(rank);
  for (std::size_t i = 0; i < at.size(); ++i)
    if (!axis_cuts(h, t, i)) at[i] = is_at_places(t, i) ? t.layout.axes[i].places[0] : 0;
  return h.mesh.rank_of(at);
}

bool has_any(const Holdings& h, const StateTensor& t, int rank) {
  const std::vector<int> at = h.mesh.coordinates(rank);
  for (std::size_t i = 0; i < at.size(); ++i)
    if (is_at_places(t, i) && !t.layout.axes[i].is_at(at[i])) return false;
  return true;
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

// Every element of every rank is somebody's.
Status check_ranges(const Holdings& h, const StateTensor& t) {
  const auto wrong = [&](const std::string& what) {
    return error(Code::kInvalid, "[parallel] state '{}' is divided along the data axis: {}", t.name, what);
  };
  if (static_cast<int>(t.ranges.size()) != h.mesh.size_of(kDataAxis))
    return wrong(fmt::format("{} ranges for {} replicas", t.ranges.size(), h.mesh.size_of(kDataAxis)));
  if (t.layout.axes.size() != h.mesh.axes.size()) return check_layout(t.layout, h.mesh, t.whole);
  for (std::size_t axis = 0; axis < h.mesh.axes.size(); ++axis) {
    const AxisLayout& layout = t.layout.axes[axis];
    const bool is_data = h.mesh.axes[axis].name == kDataAxis;
    if ((is_data && layout.cuts()) || layout.kind == AxisLayout::Kind::kFlat)
      return wrong(fmt::format("the layout '{}' cuts it too", t.layout.to_text()));
  }
  if (t.ranges.front().begin > 0) return wrong("nobody holds the first element");
  for (std::size_t d = 1; d < t.ranges.size(); ++d)
    if (t.ranges[d].begin != t.ranges[d - 1].end) return wrong("ranges do not follow one another");
  std::int64_t most = 0;
  for (int rank = 0; rank < h.mesh.num_ranks(); ++rank)
    most = std::max(most, local_shape(t.layout, h.mesh, rank, t.whole.shape).num_elems());
  return t.ranges.back().end < most ? wrong("nobody holds the last element") : Status();
}

Status check_tensor(const Holdings& h, const StateTensor& t) {
  if (t.only_rank >= h.mesh.num_ranks())
    return error(Code::kInvalid, "[parallel] state '{}' is of rank {}, and there are {}", t.name, t.only_rank,
                 h.mesh.num_ranks());
  if (t.only_rank >= 0) return {};
  if (!t.rows.empty()) return check_rows(h, t);
  if (!t.ranges.empty()) TR_RETURN_IF_ERROR(check_ranges(h, t));
  const auto is_partial = [](const AxisLayout& a) { return a.kind == AxisLayout::Kind::kPartial; };
  if (std::any_of(t.layout.axes.begin(), t.layout.axes.end(), is_partial))
    return error(Code::kInvalid, "[parallel] state '{}' is laid out as '{}': partial values are no state",
                 t.name, t.layout.to_text());
  return check_layout(t.layout, h.mesh, t.whole);
}

Interval common(Interval a, Interval b) {
  const std::int64_t begin = std::max(a.begin, b.begin);
  return {begin, std::max(begin, std::min(a.end, b.end))};
}

// The dimension in which pieces that are joined differ.
std::size_t joined_dim(const std::vector<Piece>& joined) {
  std::size_t dim = 0;
  while (joined[0].box[dim] == joined[1].box[dim]) ++dim;
  TR_CHECK(dim <= 1, "a range of blocks along dimension {} of '{}'", dim, joined[0].name);
  return dim;
}

// The pieces lie one behind the other.
void add_in_turn(const std::vector<Piece>& joined, Interval range, std::vector<RangePiece>& out) {
  std::int64_t at = 0;
  for (const Piece& piece : joined) {
    const Interval part = common({range.begin - at, range.end - at}, {0, piece.elems()});
    if (part.size() > 0) out.push_back({part_of(piece, part), at + part.begin, 0});
    at += piece.elems();
  }
}

// The pieces lie beside each other: rows of `row` elements, of which each has its columns. Elements `columns`
// of rows [first, end) of the boxes, which have one dimension before that of the columns.
struct RowGroup {
  Interval rows, columns;
};
void add_beside(const std::vector<Piece>& joined, std::int64_t row, RowGroup group,
                std::vector<RangePiece>& out) {
  std::int64_t at = 0;
  for (const Piece& piece : joined) {
    const std::int64_t width = piece.elems() / piece.box[0].size();
    const Interval part = common({group.columns.begin - at, group.columns.end - at}, {0, width});
    if (part.size() > 0 && group.rows.size() > 0) {
      Box box = piece.box;
      box[0] = {piece.box[0].begin + group.rows.begin, piece.box[0].begin + group.rows.end};
      Piece own = Piece::of_box(piece.name, piece.whole, std::move(box));
      if (part.size() < width) own = part_of(own, part);  // of one row
      out.push_back({std::move(own), group.rows.begin * row + at + part.begin,
                     group.rows.size() > 1 ? row : std::int64_t{0}});
    }
    at += width;
  }
}

}  // namespace

// Beside each other: what is left of the first row, whole rows, and the beginning of the last one. A box of
// more than two dimensions has its rows one by one.
std::vector<RangePiece> pieces_of_range(const std::vector<Piece>& joined, Interval range) {
  std::vector<RangePiece> out;
  std::int64_t elems = 0;
  for (const Piece& piece : joined) elems += piece.elems();
  range = common(range, {0, elems});
  if (range.size() == 0) return out;
  if (joined.size() == 1 || joined_dim(joined) == 0) {
    add_in_turn(joined, range, out);
    return out;
  }
  const std::int64_t rows = joined[0].box[0].size(), row = elems / rows;
  const std::int64_t first = range.begin / row, last = (range.end - 1) / row;
  const bool together = joined[0].box.size() == 2;
  for (std::int64_t r = first; r <= last;) {
    const Interval columns = common({range.begin - r * row, range.end - r * row}, {0, row});
    std::int64_t end = r + 1;
    while (together && columns.size() == row && end <= last && range.end >= (end + 1) * row) ++end;
    add_beside(joined, row, {{r, end}, columns}, out);
    r = end;
  }
  return out;
}

std::vector<RangePiece> range_held(const Holdings& holdings, std::size_t tensor, int rank, Interval& range) {
  const StateTensor& t = holdings.tensors[tensor];
  const std::vector<Piece> joined = pieces_of(t.layout, holdings.mesh, rank, t.name, t.whole);
  std::int64_t elems = 0;
  for (const Piece& piece : joined) elems += piece.elems();
  const auto at = static_cast<std::size_t>(holdings.mesh.coordinate(rank, kDataAxis));
  range = common(t.ranges[at], {0, elems});
  return pieces_of_range(joined, range);
}

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
  if (!t.ranges.empty()) {
    Interval range;
    std::vector<Piece> pieces;
    for (RangePiece& p : range_held(holdings, tensor, rank, range)) pieces.push_back(std::move(p.piece));
    return pieces;
  }
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
    if (has_any(holdings, t, r) && first_holder(holdings, t, r) == first) out.push_back(r);
  return out;
}

bool all_replicated(const Holdings& holdings) {
  return std::all_of(holdings.tensors.begin(), holdings.tensors.end(), [&](const StateTensor& t) {
    if (t.only_rank >= 0) return holdings.mesh.num_ranks() == 1;
    for (std::size_t i = 0; i < holdings.mesh.axes.size(); ++i)
      if (holdings.mesh.axes[i].size > 1 && (axis_cuts(holdings, t, i) || is_at_places(t, i))) return false;
    return true;
  });
}

}  // namespace trireme::parallel
