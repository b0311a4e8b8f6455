#include "trireme/op/comm/comm.h"

#include <algorithm>

namespace trireme::op::detail {
namespace {

struct Pieces {
  std::int64_t world = 1;
  int dim = 0;
  std::vector<std::int64_t> sizes;  // empty: all are equal
  std::int64_t total = 0;           // of the sizes

  // Whether one of the sizes is `extent`, which is the extent of `what`.
  Status expect_one(std::string_view what, std::int64_t extent) const {
    if (std::find(sizes.begin(), sizes.end(), extent) != sizes.end()) return {};
    return error(Code::kInvalid, "{}: got {}, expected one of the sizes {}", what, extent,
                 fmt::join(sizes, ", "));
  }
};

Result<Pieces> pieces_of(TypeSpan in, const Attrs& attrs) {
  Pieces p{.world = attrs.get_int("world"), .sizes = attrs.get_ints("sizes")};
  TR_RETURN_IF_ERROR(expect_at_least("world", p.world, 1));
  TR_RETURN_IF_ERROR(expect_slot(attrs));
  if (in[0].shape.rank() < 1)
    return error(Code::kInvalid, "x: got {}, expected at least 1 dimension", in[0].to_string());
  TR_ASSIGN_OR_RETURN(p.dim, resolve_axis("dim", attrs.get_int("dim"), in[0]));
  if (p.sizes.empty()) return p;
  if (static_cast<std::int64_t>(p.sizes.size()) != p.world)
    return error(Code::kInvalid, "attribute 'sizes': got {} sizes, expected one for each of {} ranks",
                 p.sizes.size(), p.world);
  for (const std::int64_t size : p.sizes)
    if (size < 0 || __builtin_add_overflow(p.total, size, &p.total))
      return error(Code::kInvalid,
                   "attribute 'sizes': got {}, expected sizes of 0 or more that add up to a "
                   "dimension",
                   fmt::join(p.sizes, ", "));
  return p;
}

}  // namespace

AttrSpec slot_attr() { return {"slot", std::int64_t{-1}, "slot of the Plan; -1: not numbered yet"}; }
AttrSpec label_attr() { return {"label", std::string(), "what the exchange is for, in errors and traces"}; }
AttrSpec world_attr() { return {"world", std::int64_t{1}, "number of ranks in the group", true}; }

AttrSpec dim_attr() {
  return {"dim", std::int64_t{0}, "dimension along which the pieces lie; negative ones count from the end"};
}
AttrSpec sizes_attr() {
  return {"sizes", std::vector<std::int64_t>(), "extent of each rank's piece; empty: all are equal"};
}

Status expect_slot(const Attrs& attrs) { return expect_at_least("slot", attrs.get_int("slot"), -1); }

Types infer_gathered(TypeSpan in, const Attrs& attrs) {
  TR_ASSIGN_OR_RETURN(const Pieces p, pieces_of(in, attrs));
  std::vector<std::int64_t> dims = dims_of(in[0].shape);
  std::int64_t& extent = dims[idx(p.dim)];
  if (!p.sizes.empty()) {
    TR_RETURN_IF_ERROR(p.expect_one(fmt::format("dimension {} of x", p.dim), extent));
    extent = p.total;
  } else if (__builtin_mul_overflow(extent, p.world, &extent)) {
    extent = -1;
  }
  TR_ASSIGN_OR_RETURN(const Shape shape, shape_from("world", dims));
  return std::vector{TensorType{in[0].dtype, shape}};
}

Types infer_scattered(TypeSpan in, const Attrs& attrs) {
  TR_ASSIGN_OR_RETURN(const Pieces p, pieces_of(in, attrs));
  TR_RETURN_IF_ERROR(expect_numeric("x", in[0]));
  const std::int64_t all = in[0].shape[p.dim], own = attrs.get_int("extent");
  TensorType out = in[0];
  if (!p.sizes.empty()) {
    if (all != p.total)
      return error(Code::kInvalid, "x: got {}, expected dimension {} to be the sum of the sizes, {}",
                   in[0].to_string(), p.dim, p.total);
    TR_RETURN_IF_ERROR(p.expect_one("attribute 'extent'", own));
    out.shape.set(p.dim, own);
    return std::vector{out};
  }
  if (own != -1)
    return error(Code::kInvalid, "attribute 'extent': got {}, expected -1 where there are no sizes", own);
  if (all % p.world != 0) {
    return error(Code::kInvalid, "x: got {}, expected dimension {} to be a multiple of {} ranks",
                 in[0].to_string(), p.dim, p.world);
  }
  out.shape.set(p.dim, all / p.world);
  return std::vector{out};
}

TensorType token_type() { return {DType::kI64, {}}; }

std::vector<LayoutOption> any_cut(TypeSpan in, const Attrs&) {
  std::vector<LayoutOption> options;
  for (int d = 0; d < in[0].shape.rank(); ++d) options.push_back({{d}, {d}});
  return options;
}

std::vector<LayoutOption> cut_beside_pieces(TypeSpan in, const Attrs& attrs) {
  auto options = any_cut(in, attrs);
  options.erase(options.begin() + *resolve_axis("dim", attrs.get_int("dim"), in[0]));
  return options;
}

std::vector<LayoutOption> token_layout(TypeSpan in, const Attrs& attrs) {
  auto options = any_cut(in, attrs);
  for (LayoutOption& o : options) o.outputs = {kPartial};
  return options;
}

std::string grad_label(const Attrs& attrs) {
  const std::string& label = attrs.get_text("label");
  return label.empty() ? label : label + "/grad";
}

}  // namespace trireme::op::detail
