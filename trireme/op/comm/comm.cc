#include "trireme/op/comm/comm.h"

#include <fmt/format.h>
#include <algorithm>

namespace trireme::op::detail {
namespace {

// Whether one of the sizes is `extent`, which is the extent of `what`.
Status expect_one_of(const std::vector<std::int64_t>& sizes, std::string_view what, std::int64_t extent) {
  if (std::find(sizes.begin(), sizes.end(), extent) != sizes.end()) return {};
  return error(Code::kInvalid, "{}: got {}, expected one of the sizes {}", what, extent,
               fmt::join(sizes, ", "));
}

}  // namespace

Result<Pieces> pieces_of(const TensorType& x, const Attrs& attrs, std::string_view dim,
                         std::string_view sizes) {
  Pieces p{.world = attrs.get_int("world"), .sizes = attrs.get_ints(sizes)};
  TR_RETURN_IF_ERROR(expect_at_least("world", p.world, 1));
  TR_RETURN_IF_ERROR(expect_slot(attrs));
  if (x.shape.rank() < 1)
    return error(Code::kInvalid, "x: got {}, expected at least 1 dimension", x.to_string());
  TR_ASSIGN_OR_RETURN(p.dim, resolve_axis(dim, attrs.get_int(dim), x));
  if (p.sizes.empty()) return p;
  if (static_cast<std::int64_t>(p.sizes.size()) != p.world)
    return error(Code::kInvalid, "attribute '{}': got {} sizes, expected one for each of {} ranks", sizes,
                 p.sizes.size(), p.world);
  for (const std::int64_t size : p.sizes)
    if (size < 0 || __builtin_add_overflow(p.total, size, &p.total))
      return error(Code::kInvalid,
                   "attribute '{}': got {}, expected sizes of 0 or more that add up to a "
                   "dimension",
                   sizes, fmt::join(p.sizes, ", "));
  return p;
}

Result<std::int64_t> Pieces::gathered(const TensorType& x) const {
  if (!sizes.empty()) {
    TR_RETURN_IF_ERROR(expect_one_of(sizes, fmt::format("dimension {} of x", dim), x.shape[dim]));
    return total;
  }
  std::int64_t whole = 0;
  if (__builtin_mul_overflow(x.shape[dim], world, &whole)) whole = -1;  // no shape has it
  return whole;
}

Result<std::int64_t> Pieces::scattered(const TensorType& x, std::int64_t own) const {
  const std::int64_t all = x.shape[dim];
  if (!sizes.empty()) {
    if (all != total)
      return error(Code::kInvalid, "x: got {}, expected dimension {} to be the sum of the sizes, {}",
                   x.to_string(), dim, total);
    TR_RETURN_IF_ERROR(expect_one_of(sizes, "attribute 'extent'", own));
    return own;
  }
  if (own != -1)
    return error(Code::kInvalid, "attribute 'extent': got {}, expected -1 where there are no sizes", own);
  if (all % world != 0)
    return error(Code::kInvalid, "x: got {}, expected dimension {} to be a multiple of {} ranks",
                 x.to_string(), dim, world);
  return all / world;
}

AttrSpec slot_attr() { return {"slot", std::int64_t{-1}, "slot of the Plan; -1: not numbered yet"}; }
AttrSpec label_attr() { return {"label", std::string(), "what the exchange is for, in errors and traces"}; }
AttrSpec world_attr() { return {"world", std::int64_t{1}, "number of ranks in the group", true}; }

AttrSpec mesh_axis_attr() {
  return {"axis", std::string(), "axis of the mesh whose ranks take part; empty: all ranks of the group"};
}

AttrSpec dim_attr() {
  return {"dim", std::int64_t{0}, "dimension along which the pieces lie; negative ones count from the end"};
}
AttrSpec sizes_attr() {
  return {"sizes", std::vector<std::int64_t>(), "extent of each rank's piece; empty: all are equal"};
}

Status expect_slot(const Attrs& attrs) { return expect_at_least("slot", attrs.get_int("slot"), -1); }

Types infer_gathered(TypeSpan in, const Attrs& attrs) {
  TR_ASSIGN_OR_RETURN(const Pieces p, pieces_of(in[0], attrs, "dim", "sizes"));
  std::vector<std::int64_t> dims = dims_of(in[0].shape);
  TR_ASSIGN_OR_RETURN(dims[idx(p.dim)], p.gathered(in[0]));
  TR_ASSIGN_OR_RETURN(const Shape shape, shape_from("world", dims));
  return std::vector{TensorType{in[0].dtype, shape}};
}

Types infer_scattered(TypeSpan in, const Attrs& attrs) {
  TR_ASSIGN_OR_RETURN(const Pieces p, pieces_of(in[0], attrs, "dim", "sizes"));
  TR_RETURN_IF_ERROR(expect_numeric("x", in[0]));
  TensorType out = in[0];
  TR_ASSIGN_OR_RETURN(const std::int64_t own, p.scattered(in[0], attrs.get_int("extent")));
  out.shape.set(p.dim, own);
  return std::vector{out};
}

TensorType token_type() { return {DType::kI64, {}}; }

std::vector<LayoutOption> any_cut(TypeSpan in, const Attrs&) {
  std::vector<LayoutOption> options;
  for (int d = 0; d < in[0].shape.rank(); ++d) options.push_back({{d}, {d}});
  return options;
}

std::vector<LayoutOption> cut_beside(TypeSpan in, const Attrs& attrs,
                                     std::initializer_list<std::string_view> dims) {
  auto options = any_cut(in, attrs);
  for (const std::string_view dim : dims) {
    const auto d = resolve_axis(dim, attrs.get_int(dim), in[0]);
    if (!d.ok()) return {};
    std::erase_if(options, [d = *d](const LayoutOption& o) { return o.inputs[0] == d; });
  }
  return options;
}

std::vector<LayoutOption> cut_beside_pieces(TypeSpan in, const Attrs& attrs) {
  auto options = cut_beside(in, attrs, {"dim"});
  pass_partial(kPartial, options);
  return options;
}

std::vector<LayoutOption> token_layout(TypeSpan in, const Attrs& attrs) {
  auto options = any_cut(in, attrs);
  for (LayoutOption& o : options) o.outputs = {kPartial};
  return options;
}

void pass_partial(int kind, std::vector<LayoutOption>& options) { options.push_back({{kind}, {kind}}); }

std::string grad_label(const Attrs& attrs) {
  const std::string& label = attrs.get_text("label");
  return label.empty() ? label : label + "/grad";
}

}  // namespace trireme::op::detail
