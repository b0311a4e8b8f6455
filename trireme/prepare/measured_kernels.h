// Kernels chosen by measurement: which method computes a convolution fastest depends on its shape, the
// processor and the threads, so rank 0 tries them once, before the run, and remembers what it found.
//
// What was chosen is written to the plan as an exception of a node ("conv2d:name",
// "conv2d[nhwc,nhwc>nhwc]:name"), so every rank and every later start of the run computes the same bits.
// Methods differ in their rounding, so a run whose bits are to
// depend on the job alone (train.logical_shards) is not measured.
#pragma once

#include <memory>
#include <string>

#include "trireme/plan/plan.h"
#include "trireme/prepare/prepared.h"
#include "trireme/runtime/runtime.h"

namespace trireme::prepare {

// False where the bits belong to the job, and where time is not measured (virtual Runtimes).
bool may_measure_kernels(const job::Job& job, const runtime::Runtime& rt);

// The plan of `prepared` with the fastest kernel of each convolution of its training graph, where that is at
// least 5 % faster than the first of the table. Calls are timed on plan.shard_threads threads and at most
// four images a thread. `cache_path` names a JSON file of earlier choices, by processor, library, threads,
// op, attributes and types; empty: nothing is remembered. A file that cannot be read or written costs a line
// in the log.
runtime::Task<Result<plan::Plan>> with_measured_kernels(runtime::Runtime& rt,
                                                        std::shared_ptr<const Prepared> prepared,
                                                        std::string cache_path);

}  // namespace trireme::prepare
