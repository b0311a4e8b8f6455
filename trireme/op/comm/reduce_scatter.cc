// Sum over ranks, of which every rank gets one piece along a dimension.
#include "trireme/op/comm/comm.h"
#include "trireme/op/ops.h"

namespace trireme::op {
namespace {
using namespace detail;

Result<Grads> grad(GradBuilder& g) {
  return Grads{g.add(kAllgather, {g.grad_output(0)},
                     {{"world", g.attrs().get_int("world")},
                      {"dim", g.attrs().get_int("dim")},
                      {"sizes", g.attrs().get_ints("sizes")},
                      {"label", grad_label(g.attrs())},
                      {"axis", g.attrs().get_text("axis")}})};
}
}  // namespace

const OpDef kReduceScatter{
    .name = "reduce_scatter",
    .doc =
        "Sum of x over ranks; rank r gets the r-th of `world` pieces along dimension `dim`: equal ones, or "
        "of `sizes`. Ranks whose pieces have one extent have one graph.",
    .family = "comm",
    .num_inputs = 1,
    .attrs = {world_attr(),
              slot_attr(),
              label_attr(),
              mesh_axis_attr(),
              dim_attr(),
              sizes_attr(),
              {"extent", std::int64_t{-1}, "extent of this rank's piece, where pieces have sizes"}},
    .dtypes = kNumeric,
    .infer = infer_scattered,
    .grad = grad,
    .cost = cost_per_output<1>,
    .layout = cut_beside_pieces,
    .traits = kHostTraits};

}  // namespace trireme::op
