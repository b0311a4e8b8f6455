// Algorithms chosen by measurement on a GPU: libraries have several for a product or a convolution, and the
// first of their heuristics is not always the fastest.
#pragma once

#include <memory>
#include <string>

#include "trireme/plan/plan.h"
#include "trireme/prepare/prepared.h"
#include "trireme/runtime/runtime.h"

namespace trireme::prepare {

// with_measured_kernels (measured_kernels.h) for what is compiled for a GPU: the plan names the fastest
// algorithm of each distinct 16-bit product, convolution and attention of the training graph ("matmul:name"
// -> "cublaslt/3"). Most expensive ones first, until a budget of seconds is spent; the others keep the
// library's first, and are measured by a later start. Remembered by GPU, libraries, op, attributes and types.
runtime::Task<Result<plan::Plan>> with_measured_algorithms(runtime::Runtime& rt,
                                                           std::shared_ptr<const Prepared> prepared,
                                                           std::string cache_path);

// The kernels without their algorithms, for graphs of other shapes than were measured.
std::map<std::string, std::string> without_algorithms(std::map<std::string, std::string> kernels);

}  // namespace trireme::prepare
