// What queues and files share. Host ops: whoever runs the graph injects them (exec/host_op.h).
#pragma once

#include "trireme/op/comm/comm.h"
#include "trireme/op/feed/feed.h"

namespace trireme::op::detail {

AttrSpec queue_attr();                                            // `name`
std::vector<AttrSpec> file_attrs();                               // `path`, `name`
std::vector<AttrSpec> stated_attrs(std::vector<AttrSpec> first);  // and then dtype and shape

// Into a queue or file: yields a token. Out of one: the stated type.
Types infer_enqueue(TypeSpan in, const Attrs& attrs);
Types infer_dequeue(TypeSpan in, const Attrs& attrs);
Types infer_save(TypeSpan in, const Attrs& attrs);
Types infer_restore(TypeSpan in, const Attrs& attrs);

}  // namespace trireme::op::detail
