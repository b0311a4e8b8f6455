// Copies and hashes of whole models, on the compute pool: a loop that does them itself answers no heartbeat
// meanwhile. Virtual time does not count them: they come before the first step and after the last.
#pragma once

#include <string>

#include "trireme/io/safetensors.h"
#include "trireme/runtime/runtime.h"

namespace trireme::engine {

// Both have one type and are contiguous. The Task keeps them alive.
runtime::Task<void> copy_tensor(runtime::Runtime& rt, Tensor from, Tensor to);

// io::parameters_sha256; empty on a phantom Runtime.
runtime::Task<std::string> hash_parameters(runtime::Runtime& rt, io::NamedTensors tensors);

}  // namespace trireme::engine
