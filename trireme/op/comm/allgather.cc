// The pieces of all ranks, one after the other along dimension 0; every rank gets the whole.
#include "trireme/op/comm/comm.h"
#include "trireme/op/ops.h"

namespace trireme::op {
namespace {
using namespace detail;

Result<Grads> grad(GradBuilder& g) {
  return Grads{g.add(kReduceScatter, {g.grad_output(0)},
                     {{"world", g.attrs().get_int("world")}, {"label", grad_label(g.attrs())}})};
}
}  // namespace

const OpDef kAllgather{.name = "allgather",
                       .doc = "The x of all ranks in rank order along dimension 0, on every rank.",
                       .family = "comm",
                       .num_inputs = 1,
                       .attrs = {world_attr(), slot_attr(), label_attr()},
                       .dtypes = kAnyDType,
                       .infer = infer_gathered,
                       .grad = grad,
                       .cost = copy_cost,
                       .layout = cut_behind_ranks,
                       .traits = kHostTraits};

}  // namespace trireme::op
