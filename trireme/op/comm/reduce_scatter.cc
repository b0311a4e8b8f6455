// Sum over ranks, of which rank r gets the r-th of `world` equal pieces along dimension 0.
#include "trireme/op/comm/comm.h"
#include "trireme/op/ops.h"

namespace trireme::op {
namespace {
using namespace detail;

Result<Grads> grad(GradBuilder& g) {
  return Grads{g.add(kAllgather, {g.grad_output(0)},
                     {{"world", g.attrs().get_int("world")}, {"label", grad_label(g.attrs())}})};
}
}  // namespace

const OpDef kReduceScatter{
    .name = "reduce_scatter",
    .doc = "Sum of x over ranks; rank r gets the r-th of `world` equal pieces along dimension 0.",
    .family = "comm",
    .num_inputs = 1,
    .attrs = {world_attr(), slot_attr(), label_attr()},
    .dtypes = kNumeric,
    .infer = infer_scattered,
    .grad = grad,
    .cost = cost_per_output<1>,
    .layout = cut_behind_ranks,
    .traits = kHostTraits};

}  // namespace trireme::op
