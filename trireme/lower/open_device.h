// Where a job computes: the GPU that a device key or option asks for.
#pragma once

#include <memory>
#include <string>

#include "trireme/runtime/runtime.h"
#include "trireme/tensor/device.h"

namespace trireme::lower {

// `wanted`: cpu, cuda or auto (a GPU where there is one, else a line in the log that says why not). Null: the
// host. GPUs are counted round, so `ordinal` may be a local rank. Kernels of earlier starts are taken from
// the file of kernel/compiled_texts.h.
runtime::Task<Result<std::shared_ptr<Device>>> open_device(runtime::Runtime& rt, std::string wanted,
                                                           int ordinal);

// Writes that file where kernels were compiled since. One that cannot be written costs a line in the log.
runtime::Task<void> keep_texts(runtime::Runtime& rt);

}  // namespace trireme::lower
