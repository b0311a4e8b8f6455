// The heavy kernels of a training step, each alone at its best: what a step could take at least on this
// machine with these kernels.
#pragma once

#include "trireme/base/json.h"
#include "trireme/prepare/prepared.h"
#include "trireme/runtime/runtime.h"

namespace trireme::measure {

// Every distinct heavy node (op, attributes, types) of the training graph is run alone, on all compute
// threads, with every kernel that takes it; the fastest call counts. Other nodes and the updates count the
// bytes that they must move. Members:
//   kernels   [{op, kernel, shapes, nodes, ms (one call), gflops, gbytes_per_second, of_peak, others:
//             [{kernel, ms}]}], by falling share of a step
//   heavy_ms, other_ms (other_bytes at the stream rate), least_ms = their sum
//   peak_gflops (a large product of matrices), stream_gbytes_per_second (a copy: read and written bytes)
runtime::Task<Result<Json>> measure_kernels(runtime::Runtime& rt, const prepare::Prepared& prepared,
                                            std::string dtype);

}  // namespace trireme::measure
