#include "trireme/op/nn/cut_windows.h"

#include <algorithm>

#include "trireme/op/ops.h"

namespace trireme::op::detail {
namespace {

std::int64_t floor_div(std::int64_t a, std::int64_t b) { return a / b - (a % b < 0 ? 1 : 0); }
std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return -floor_div(-a, b); }

// Indices [begin, end) of one dimension; an end of 0 is that of the dimension.
Value slice_of(CutBuilder& b, Value v, int dim, std::int64_t begin, std::int64_t end) {
  std::vector<std::int64_t> begins(idx(b.type(v).shape.rank()), 0), ends = begins;
  begins[idx(dim)] = begin;
  ends[idx(dim)] = end;
  return b.add(kSlice, {v}, {{"begin", begins}, {"end", ends}});
}

}  // namespace

Ranges even_parts(std::int64_t size, int num_parts) {
  Ranges parts{part_begins(size, num_parts), part_sizes(size, num_parts)};
  for (std::size_t p = 0; p < parts.begins.size(); ++p) parts.ends[p] += parts.begins[p];
  return parts;
}

Ranges widened(Ranges parts, std::int64_t before, std::int64_t after) {
  for (std::int64_t& begin : parts.begins) begin -= before;
  for (std::int64_t& end : parts.ends) end += after;
  return parts;
}

Ranges inputs_of(const Sliding& s, const Ranges& windows) {
  Ranges inputs = windows;
  for (std::size_t p = 0; p < windows.begins.size(); ++p) {
    inputs.begins[p] = windows.begins[p] * s.stride - s.pad;
    inputs.ends[p] = (windows.ends[p] - 1) * s.stride - s.pad + s.span;
  }
  return inputs;
}

Ranges windows_over(const Sliding& s, const Ranges& inputs) {
  Ranges windows = inputs;
  for (std::size_t p = 0; p < inputs.begins.size(); ++p) {
    const std::int64_t first = inputs.begins[p] + s.pad, last = inputs.ends[p] - 1 + s.pad;
    // The first window that ends behind the first input and the last that begins before the last one; where
    // there are gaps between windows, one more may have to begin before the first and end behind the last.
    windows.begins[p] = std::min(ceil_div(first - s.span + 1, s.stride), floor_div(first, s.stride));
    windows.ends[p] = std::max(floor_div(last, s.stride), ceil_div(last - s.span + 1, s.stride)) + 1;
  }
  return windows;
}

Value window_of(CutBuilder& b, Value part, int dim, std::int64_t size, const Ranges& ranges, double fill) {
  if (ranges == even_parts(size, b.num_parts())) return part;
  return b.window(part, dim, size, ranges.begins, ranges.ends, fill);
}

// Where positions leave off other numbers of elements, that is done in two steps: sizes alone, which are
// seen between the two, tell programs of positions apart.
Value crop(CutBuilder& b, Value v, int dim, const Ranges& outer, const Ranges& inner) {
  if (outer == inner) return v;
  const auto low = [&](std::size_t p) { return inner.begins[p] - outer.begins[p]; };
  const std::size_t own = idx(b.position());
  bool uniform = true;
  for (std::size_t p = 1; p < inner.begins.size(); ++p) uniform = uniform && low(p) == low(0);
  const std::int64_t size = inner.ends[own] - inner.begins[own];
  if (uniform) return slice_of(b, v, dim, low(own), low(own) + size);
  return slice_of(b, slice_of(b, v, dim, low(own), 0), dim, 0, size);
}

namespace {

Value padded(CutBuilder& b, Value v, int dim, std::int64_t low, std::int64_t high) {
  std::vector<std::int64_t> lows(idx(b.type(v).shape.rank()), 0), highs = lows;
  lows[idx(dim)] = low;
  highs[idx(dim)] = high;
  return b.add(kPad, {v}, {{"low", lows}, {"high", highs}});
}

}  // namespace

bool can_overlap(const Ranges& overlapping) {
  std::int64_t all = 0;
  std::vector<std::int64_t> sizes;
  for (std::size_t p = 0; p < overlapping.begins.size(); ++p) {
    sizes.push_back(overlapping.size(static_cast<int>(p)));
    all += sizes.back();
  }
  return sizes == part_sizes(all, static_cast<int>(sizes.size()));
}

// What a position gets from the one `shift` places behind it comes by an exchange of its own, so that nothing
// else travels. Slices and borders are made in two steps each, as in crop().
Value add_overlaps(CutBuilder& b, Value v, int dim, const Ranges& overlapping, const Ranges& parts) {
  const int n = b.num_parts(), own = b.position();
  std::vector<std::int64_t> starts;  // of each one's indices when all lie one behind the other
  std::int64_t total = 0;
  for (int p = 0; p < n; ++p) {
    starts.push_back(total);
    total += overlapping.size(p);
  }
  const auto shared = [&](int p, int q) {  // what q has for p
    Ranges r{{0}, {0}};
    if (q < 0 || q >= n) return r;
    r.begins[0] = std::max(overlapping.begins[idx(q)], parts.begins[idx(p)]);
    r.ends[0] = std::max(r.begins[0], std::min(overlapping.ends[idx(q)], parts.ends[idx(p)]));
    return r;
  };
  int reach = 0;  // how many positions away somebody has summands
  for (int p = 0; p < n; ++p)
    for (int q = 0; q < n; ++q)
      if (shared(p, q).size(0) > 0) reach = std::max(reach, std::abs(p - q));
  Value sum{};
  for (int shift = -reach; shift <= reach; ++shift) {
    Ranges wanted;
    for (int p = 0; p < n; ++p) {
      const Ranges r = shared(p, p + shift);
      const bool none = r.size(0) == 0;
      wanted.begins.push_back(
          none ? 0 : starts[idx(p + shift)] + r.begins[0] - overlapping.begins[idx(p + shift)]);
      wanted.ends.push_back(wanted.begins.back() + r.size(0));
    }
    const Ranges r = shared(own, own + shift);
    const std::int64_t count = r.size(0), low = count == 0 ? 0 : r.begins[0] - parts.begins[idx(own)];
    Value piece = v;
    if (shift != 0) {
      piece = b.window(v, dim, total, wanted.begins, wanted.ends, 0);
    } else {
      const std::int64_t from =
          count == 0 ? overlapping.size(own) : r.begins[0] - overlapping.begins[idx(own)];
      piece = slice_of(b, slice_of(b, v, dim, from, overlapping.size(own)), dim, 0, count);
    }
    piece = padded(b, padded(b, piece, dim, low, 0), dim, 0, parts.size(own) - low - count);
    sum = shift == -reach ? piece : b.add(kAdd, {sum, piece});
  }
  return sum;
}

Value with_neighbors(CutBuilder& b, const OpDef& def, Value v, int dim, std::int64_t before,
                     std::int64_t after, const Attrs& attrs) {
  const std::int64_t size = b.whole_output(0).shape[dim];
  const Ranges parts = even_parts(size, b.num_parts()), all = widened(parts, before, after);
  return crop(b, b.add(def, {window_of(b, v, dim, size, all, 0)}, attrs), dim, all, parts);
}

std::vector<LayoutOption> with_sides(std::vector<LayoutOption> options, std::size_t num_inputs) {
  for (const int d : {2, 3})
    options.push_back({std::vector<AxisCut>(num_inputs, d), {d}, /*rewritten=*/true});
  return options;
}

}  // namespace trireme::op::detail
