// The pieces of all ranks, one after the other along a dimension; every rank gets the whole.
#include "trireme/op/comm/comm.h"
#include "trireme/op/ops.h"

namespace trireme::op {
namespace {
using namespace detail;

Result<Grads> grad(GradBuilder& g) {
  const TensorType x = g.type(g.input(0));
  TR_ASSIGN_OR_RETURN(const int dim, resolve_axis("dim", g.attrs().get_int("dim"), x));
  const std::vector<std::int64_t>& sizes = g.attrs().get_ints("sizes");
  return Grads{g.add(kReduceScatter, {g.grad_output(0)},
                     {{"world", g.attrs().get_int("world")},
                      {"dim", std::int64_t{dim}},
                      {"sizes", sizes},
                      {"extent", sizes.empty() ? std::int64_t{-1} : x.shape[dim]},
                      {"label", grad_label(g.attrs())},
                      {"axis", g.attrs().get_text("axis")}})};
}
}  // namespace

const OpDef kAllgather{
    .name = "allgather",
    .doc =
        "The x of all ranks in rank order along dimension `dim`, on every rank. Pieces of other extents "
        "than this rank's have `sizes`.",
    .family = "comm",
    .num_inputs = 1,
    .attrs = {world_attr(), slot_attr(), label_attr(), mesh_axis_attr(), dim_attr(), sizes_attr()},
    .dtypes = kAnyDType,
    .infer = infer_gathered,
    .grad = grad,
    .cost = copy_cost,
    .layout = cut_beside_pieces,
    .traits = kHostTraits};

}  // namespace trireme::op
