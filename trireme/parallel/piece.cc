#include "trireme/parallel/piece.h"

#include <algorithm>
#include <map>
#include <utility>

namespace trireme::parallel {
namespace {

using Kind = AxisLayout::Kind;
using Indices = std::vector<Interval>;  // of one dimension, in the order in which a rank holds them

std::int64_t count(const Indices& indices) {
  std::int64_t n = 0;
  for (const Interval& i : indices) n += i.size();
  return n;
}

// The elements `part` of what is held, as intervals of the whole dimension.
void append_part(const Indices& held, Interval part, Indices& out) {
  std::int64_t at = 0;
  for (const Interval& i : held) {
    const Interval own{i.begin + std::max<std::int64_t>(0, part.begin - at),
                       i.begin + std::min(i.size(), part.end - at)};
    at += i.size();
    if (own.size() <= 0) continue;
    if (!out.empty() && out.back().end == own.begin)
      out.back().end = own.end;
    else
      out.push_back(own);
  }
}

Indices cut(const Indices& held, const AxisLayout& axis, int parts, int position) {
  Indices out;
  const std::int64_t units = count(held) / axis.blocks / axis.unit;
  for (int b = 0; b < axis.blocks; ++b) {
    const Interval part = cut_evenly({b * units, (b + 1) * units}, parts, position);
    append_part(held, {part.begin * axis.unit, part.end * axis.unit}, out);
  }
  return out;
}

// Per dimension the indices that a rank holds, before flat cuts.
std::vector<Indices> held_indices(const Layout& layout, const Mesh& mesh, std::span<const int> at,
                                  const Shape& whole) {
  std::vector<Indices> held;
  for (const std::int64_t size : whole.dims()) held.push_back({{0, size}});
  for (std::size_t i = 0; i < layout.axes.size(); ++i)
    if (layout.axes[i].kind == Kind::kShard) {
      Indices& dim = held[static_cast<std::size_t>(layout.axes[i].dim)];
      dim = cut(dim, layout.axes[i], mesh.axes[i].size, at[i]);
    }
  return held;
}

// Whether a rank has nothing of what other positions have.
bool is_elsewhere(const Layout& layout, std::span<const int> at) {
  for (std::size_t i = 0; i < layout.axes.size(); ++i)
    if (!layout.axes[i].is_at(at[i])) return true;
  return false;
}

// Boxes of all combinations of intervals, the last dimension varying fastest.
std::vector<Box> boxes_of(const std::vector<Indices>& held) {
  std::vector<Box> boxes{{}};
  for (const Indices& dim : held) {
    std::vector<Box> longer;
    for (const Box& box : boxes)
      for (const Interval& i : dim) {
        longer.push_back(box);
        longer.back().push_back(i);
      }
    boxes = std::move(longer);
  }
  return boxes;
}

// Visits where the rows of `inner` begin in `a` and in `b`: boxes around it. A row is a run of elements that
// lie one after the other in both.
class Rows {
 public:
  Rows(const Box& a, const Box& b, const Box& inner) : a_(a), b_(b), inner_(inner) {
    while (first_ > 0) {
      --first_;
      length_ *= inner[first_].size();
      if (inner[first_] != a[first_] || inner[first_] != b[first_]) break;
    }
  }

  template <typename Visit>
  void visit(const Visit& visit) const {
    std::vector<std::int64_t> index;
    for (const Interval& i : inner_) index.push_back(i.begin);
    do visit(position(a_, index), position(b_, index), length_);
    while (advance(index));
  }

 private:
  static std::int64_t position(const Box& box, const std::vector<std::int64_t>& index) {
    std::int64_t at = 0;
    for (std::size_t d = 0; d < box.size(); ++d) at = at * box[d].size() + index[d] - box[d].begin;
    return at;
  }

  bool advance(std::vector<std::int64_t>& index) const {
    for (std::size_t d = first_; d-- > 0;) {
      if (++index[d] < inner_[d].end) return true;
      index[d] = inner_[d].begin;
    }
    return false;
  }

  const Box &a_, &b_, &inner_;
  std::size_t first_ = inner_.size();  // the first dimension that a row covers
  std::int64_t length_ = 1;
};

bool lies_in(const Interval& i, std::int64_t size) {
  return i.begin >= 0 && i.begin <= i.end && i.end <= size;
}

Status check_bounds(const Piece& piece) {
  bool inside = static_cast<int>(piece.box.size()) == piece.whole.shape.rank();
  for (std::size_t d = 0; inside && d < piece.box.size(); ++d)
    inside = lies_in(piece.box[d], piece.whole.shape[static_cast<int>(d)]);
  if (inside && lies_in(piece.range, num_elems(piece.box))) return {};
  return error(Code::kInvalid, "[parallel] piece {} is not within {}", piece.to_text(),
               piece.whole.to_string());
}

std::string range_text(const Interval& i) { return fmt::format("{}:{}", i.begin, i.end); }

}  // namespace

Interval cut_evenly(Interval interval, int parts, int position) {
  const std::int64_t each = interval.size() / parts, longer = interval.size() % parts, p = position;
  const std::int64_t begin = interval.begin + p * each + std::min(p, longer);
  return {begin, begin + each + (p < longer ? 1 : 0)};
}

std::int64_t num_elems(const Box& box) {
  const auto is_empty = [](const Interval& i) { return i.size() == 0; };
  if (std::any_of(box.begin(), box.end(), is_empty)) return 0;  // the other sizes may be of any length
  std::int64_t n = 1;
  for (const Interval& i : box) n *= i.size();
  return n;
}

Box whole_box(const Shape& shape) {
  Box box;
  for (const std::int64_t size : shape.dims()) box.push_back({0, size});
  return box;
}

std::optional<Box> intersect(const Box& a, const Box& b) {
  Box both;
  for (std::size_t d = 0; d < a.size(); ++d) {
    both.push_back({std::max(a[d].begin, b[d].begin), std::min(a[d].end, b[d].end)});
    if (both.back().size() <= 0) return std::nullopt;
  }
  return both;
}

Piece Piece::of_whole(std::string name, const TensorType& whole) {
  return of_box(std::move(name), whole, whole_box(whole.shape));
}

Piece Piece::of_box(std::string name, const TensorType& whole, Box box) {
  const std::int64_t elems = num_elems(box);
  return {std::move(name), whole, std::move(box), {0, elems}};
}

std::string Piece::to_text() const {
  std::string text;
  for (const Interval& i : box) text += fmt::format("{}{}", text.empty() ? "" : ", ", range_text(i));
  return fmt::format("{}[{}]{}", name, text, is_box() ? "" : " flat " + range_text(range));
}

std::vector<SharedRun> shared_runs(const Piece& a, const Piece& b) {
  const std::optional<Box> both = intersect(a.box, b.box);
  std::vector<SharedRun> runs;
  if (!both) return runs;
  Rows(a.box, b.box, *both).visit([&](std::int64_t at_a, std::int64_t at_b, std::int64_t length) {
    const std::int64_t skip = std::max({std::int64_t{0}, a.range.begin - at_a, b.range.begin - at_b});
    const std::int64_t end = std::min({length, a.range.end - at_a, b.range.end - at_b});
    if (end <= skip) return;
    const SharedRun run{at_a + skip - a.range.begin, at_b + skip - b.range.begin, end - skip};
    if (!runs.empty() && runs.back().first + runs.back().count == run.first &&
        runs.back().second + runs.back().count == run.second)
      runs.back().count += run.count;
    else
      runs.push_back(run);
  });
  return runs;
}

std::vector<SharedRun> runs_in_whole(const Piece& piece) {
  return shared_runs(piece, Piece::of_whole(piece.name, piece.whole));
}

Status check_cover(std::span<const Piece> pieces) {
  constexpr std::size_t kMostBoxes = 4096;  // each is compared with each
  if (pieces.empty()) return error(Code::kInvalid, "[parallel] there is no piece");
  std::int64_t elems = 0;
  std::map<std::vector<std::pair<std::int64_t, std::int64_t>>, std::vector<const Piece*>> by_box;
  for (const Piece& p : pieces) {
    TR_RETURN_IF_ERROR(check_bounds(p));
    if (p.whole != pieces[0].whole)
      return error(Code::kInvalid, "[parallel] piece {} is of {}, others are of {}", p.to_text(),
                   p.whole.to_string(), pieces[0].whole.to_string());
    if (p.elems() > pieces[0].whole.shape.num_elems() - elems)
      return error(Code::kInvalid, "[parallel] piece {} overlaps with others", p.to_text());
    elems += p.elems();
    std::vector<std::pair<std::int64_t, std::int64_t>> key;
    for (const Interval& i : p.box) key.emplace_back(i.begin, i.end);
    by_box[std::move(key)].push_back(&p);
  }
  if (elems != pieces[0].whole.shape.num_elems())
    return error(Code::kInvalid, "[parallel] pieces of '{}' hold {} elements of {}", pieces[0].name, elems,
                 pieces[0].whole.shape.num_elems());
  if (by_box.size() > kMostBoxes)
    return error(Code::kInvalid, "[parallel] '{}' is in {} boxes, at most {} are allowed", pieces[0].name,
                 by_box.size(), kMostBoxes);
  for (auto& [key, same] : by_box) {
    std::sort(same.begin(), same.end(),
              [](const Piece* a, const Piece* b) { return a->range.begin < b->range.begin; });
    for (std::size_t i = 1; i < same.size(); ++i)
      if (same[i]->range.begin < same[i - 1]->range.end)
        return error(Code::kInvalid, "[parallel] pieces {} and {} overlap", same[i - 1]->to_text(),
                     same[i]->to_text());
  }
  for (auto a = by_box.begin(); a != by_box.end(); ++a)
    for (auto b = std::next(a); b != by_box.end(); ++b)
      if (intersect(a->second[0]->box, b->second[0]->box))
        return error(Code::kInvalid, "[parallel] the boxes of pieces {} and {} overlap",
                     a->second[0]->to_text(), b->second[0]->to_text());
  return {};
}

Piece part_of(const Piece& piece, Interval part) {
  Piece out = piece;
  out.range = {piece.range.begin + part.begin, piece.range.begin + part.end};
  return out;
}

Piece window_of(const std::string& name, const TensorType& whole, Interval elems) {
  Piece piece = Piece::of_whole(name, whole);
  if (whole.shape.rank() == 0 || elems.size() == 0) return part_of(piece, elems);
  const std::int64_t row = whole.shape.num_elems() / whole.shape[0];
  piece.box[0] = {elems.begin / row, (elems.end + row - 1) / row};
  const std::int64_t skipped = piece.box[0].begin * row;
  piece.range = {elems.begin - skipped, elems.end - skipped};
  return piece;
}

std::vector<Piece> pieces_of(const Layout& layout, const Mesh& mesh, int rank, const std::string& name,
                             const TensorType& whole) {
  const std::vector<int> at = mesh.coordinates(rank);
  std::vector<Piece> pieces;
  if (is_elsewhere(layout, at)) return pieces;
  for (Box& box : boxes_of(held_indices(layout, mesh, at, whole.shape))) {
    Piece piece = Piece::of_box(name, whole, std::move(box));
    for (std::size_t i = 0; i < layout.axes.size(); ++i)
      if (layout.axes[i].kind == Kind::kFlat) piece.range = cut_evenly(piece.range, mesh.axes[i].size, at[i]);
    if (piece.elems() > 0) pieces.push_back(std::move(piece));
  }
  return pieces;
}

Shape local_shape(const Layout& layout, const Mesh& mesh, int rank, const Shape& whole) {
  const std::vector<int> at = mesh.coordinates(rank);
  const std::vector<Indices> held = held_indices(layout, mesh, at, whole);
  Shape shape = whole;
  if (is_elsewhere(layout, at)) {
    if (whole.rank() > 0) shape.set(0, 0);
    return shape;
  }
  for (int d = 0; d < whole.rank(); ++d) shape.set(d, count(held[static_cast<std::size_t>(d)]));
  return shape;
}

Status check_blocks(const Layout& layout, const Mesh& mesh, const Shape& whole) {
  for (std::size_t i = 0; i < layout.axes.size(); ++i) {
    const AxisLayout& axis = layout.axes[i];
    if (axis.kind != Kind::kShard || axis.blocks * axis.unit == 1) continue;
    // What the axes before this one leave.
    Layout before = layout;
    for (std::size_t k = i; k < before.axes.size(); ++k) before.axes[k] = AxisLayout::replicate();
    for (int rank = 0; rank < mesh.num_ranks(); ++rank) {
      const std::int64_t size = local_shape(before, mesh, rank, whole)[axis.dim];
      if (size % (axis.blocks * axis.unit) != 0)
        return error(Code::kInvalid,
                     "[parallel] layout '{}': {} has {} indices of dimension {}, which are no {} "
                     "equal blocks{}",
                     layout.to_text(), mesh.rank_text(rank), size, axis.dim, axis.blocks,
                     axis.unit == 1 ? "" : fmt::format(" of units of {}", axis.unit));
    }
  }
  return {};
}

}  // namespace trireme::parallel
