#include "trireme/op/comm/comm.h"

namespace trireme::op::detail {
namespace {
Result<std::int64_t> world_of(TypeSpan in, const Attrs& attrs) {
  const std::int64_t world = attrs.get_int("world");
  TR_RETURN_IF_ERROR(expect_at_least("world", world, 1));
  TR_RETURN_IF_ERROR(expect_slot(attrs));
  if (in[0].shape.rank() < 1)
    return error(Code::kInvalid, "x: got {}, expected at least 1 dimension", in[0].to_string());
  return world;
}
}  // namespace

AttrSpec slot_attr() { return {"slot", std::int64_t{-1}, "slot of the Plan; -1: not numbered yet"}; }
AttrSpec label_attr() { return {"label", std::string(), "what the exchange is for, in errors and traces"}; }
AttrSpec world_attr() { return {"world", std::int64_t{1}, "number of ranks in the group", true}; }

Status expect_slot(const Attrs& attrs) { return expect_at_least("slot", attrs.get_int("slot"), -1); }

Types infer_gathered(TypeSpan in, const Attrs& attrs) {
  TR_ASSIGN_OR_RETURN(const std::int64_t world, world_of(in, attrs));
  std::vector<std::int64_t> dims = dims_of(in[0].shape);
  if (__builtin_mul_overflow(dims[0], world, &dims[0])) dims[0] = -1;
  TR_ASSIGN_OR_RETURN(const Shape shape, shape_from("world", dims));
  return std::vector{TensorType{in[0].dtype, shape}};
}

Types infer_scattered(TypeSpan in, const Attrs& attrs) {
  TR_ASSIGN_OR_RETURN(const std::int64_t world, world_of(in, attrs));
  TR_RETURN_IF_ERROR(expect_numeric("x", in[0]));
  if (in[0].shape[0] % world != 0) {
    return error(Code::kInvalid, "x: got {}, expected dimension 0 to be a multiple of {} ranks",
                 in[0].to_string(), world);
  }
  TensorType out = in[0];
  out.shape.set(0, in[0].shape[0] / world);
  return std::vector{out};
}

TensorType token_type() { return {DType::kI64, {}}; }

std::vector<LayoutOption> any_cut(TypeSpan in, const Attrs&) {
  std::vector<LayoutOption> options;
  for (int d = 0; d < in[0].shape.rank(); ++d) options.push_back({{d}, {d}});
  return options;
}

std::vector<LayoutOption> cut_behind_ranks(TypeSpan in, const Attrs& attrs) {
  auto options = any_cut(in, attrs);
  options.erase(options.begin());
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
