// A tensor that the ranks have cut along one dimension, cut along another.
#include "trireme/op/comm/comm.h"
#include "trireme/op/ops.h"

namespace trireme::op {
namespace {
using namespace detail;

Types infer(TypeSpan in, const Attrs& attrs) {
  TR_ASSIGN_OR_RETURN(const Pieces from, pieces_of(in[0], attrs, "from", "sizes_from"));
  TR_ASSIGN_OR_RETURN(const Pieces to, pieces_of(in[0], attrs, "to", "sizes_to"));
  if (from.dim == to.dim)
    return error(Code::kInvalid, "attribute 'to': got {}, expected another dimension than 'from'", to.dim);
  std::vector<std::int64_t> dims = dims_of(in[0].shape);
  TR_ASSIGN_OR_RETURN(dims[idx(from.dim)], from.gathered(in[0]));
  TR_ASSIGN_OR_RETURN(dims[idx(to.dim)], to.scattered(in[0], attrs.get_int("extent")));
  TR_ASSIGN_OR_RETURN(const Shape shape, shape_from("world", dims));
  return std::vector{TensorType{in[0].dtype, shape}};
}

// The way back.
Result<Grads> grad(GradBuilder& g) {
  const Attrs& attrs = g.attrs();
  const TensorType x = g.type(g.input(0));
  TR_ASSIGN_OR_RETURN(const int from, resolve_axis("from", attrs.get_int("from"), x));
  const auto &sizes_from = attrs.get_ints("sizes_from"), &sizes_to = attrs.get_ints("sizes_to");
  return Grads{g.add(kAllToAll, {g.grad_output(0)},
                     {{"world", attrs.get_int("world")},
                      {"label", grad_label(attrs)},
                      {"axis", attrs.get_text("axis")},
                      {"from", attrs.get_int("to")},
                      {"to", attrs.get_int("from")},
                      {"sizes_from", sizes_to},
                      {"sizes_to", sizes_from},
                      {"extent", sizes_from.empty() ? std::int64_t{-1} : x.shape[from]}})};
}

std::vector<LayoutOption> layout(TypeSpan in, const Attrs& attrs) {
  auto options = cut_beside(in, attrs, {"from", "to"});
  pass_partial(kPartial, options);
  return options;
}

std::vector<AttrSpec> attrs() {
  const std::vector<std::int64_t> equal;
  return {world_attr(),
          slot_attr(),
          label_attr(),
          mesh_axis_attr(),
          {"from", std::int64_t{0}, "dimension that is cut before; negative ones count from the end", true},
          {"to", std::int64_t{1}, "dimension that is cut after; negative ones count from the end", true},
          {"sizes_from", equal, "extent of each rank's piece along `from`; empty: all are equal"},
          {"sizes_to", equal, "extent of each rank's piece along `to`; empty: all are equal"},
          {"extent", std::int64_t{-1}, "extent of this rank's piece along `to`, where pieces have sizes"}};
}
}  // namespace

const OpDef kAllToAll{.name = "all_to_all",
                      .doc =
                          "A tensor whose dimension `from` is cut over the ranks becomes whole along it and "
                          "cut along dimension "
                          "`to`: every rank sends a piece to every other one.",
                      .family = "comm",
                      .num_inputs = 1,
                      .attrs = attrs(),
                      .dtypes = kAnyDType,
                      .infer = infer,
                      .grad = grad,
                      .cost = copy_cost,
                      .layout = layout,
                      .traits = kHostTraits};

}  // namespace trireme::op
