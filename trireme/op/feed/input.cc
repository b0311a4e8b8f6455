// A tensor that the caller gives to every run.
#include "trireme/op/feed/feed.h"
#include "trireme/op/ops.h"

namespace trireme::op {

const OpDef kInput{.name = "input",
                   .doc = "A tensor that the caller gives to every run.",
                   .family = "feed",
                   .num_inputs = 0,
                   .attrs = detail::feed_attrs(),
                   .dtypes = 0,
                   .infer = detail::infer_feed,
                   .cost = detail::no_cost,
                   .layout = detail::stated_layout,
                   .traits = kFeed,
                   .shape_attr = "shape"};

}  // namespace trireme::op
