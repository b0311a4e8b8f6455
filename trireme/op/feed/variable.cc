// A tensor that lives across runs: a parameter, optimiser state, a counter.
#include "trireme/op/feed/feed.h"
#include "trireme/op/ops.h"

namespace trireme::op {

const OpDef kVariable{.name = "variable",
                      .doc = "A tensor that lives across runs: a parameter, optimiser state, a counter.",
                      .family = "feed",
                      .num_inputs = 0,
                      .attrs = detail::feed_attrs(),
                      .dtypes = 0,
                      .infer = detail::infer_feed,
                      .cost = detail::no_cost,
                      .layout = detail::stated_layout,
                      .traits = kFeed | kStateful,
                      .shape_attr = "shape"};

}  // namespace trireme::op
