// Copies and hashes of models, on the compute pool: a loop that does them itself answers no heartbeat
// meanwhile. Virtual time does not count them: they come before the first step and after the last.
#pragma once

#include <string>

#include "trireme/comm/group.h"
#include "trireme/engine/state/piece_stream.h"
#include "trireme/io/safetensors.h"
#include "trireme/runtime/runtime.h"

namespace trireme::engine {

// Both have one type and are contiguous. The Task keeps them alive.
runtime::Task<void> copy_tensor(runtime::Runtime& rt, Tensor from, Tensor to);

// io::parameters_sha256; empty on a phantom Runtime.
runtime::Task<std::string> hash_parameters(runtime::Runtime& rt, io::NamedTensors tensors);
// The same of what ranks hold, whose tensors are in name order; the same on every rank. A rank that holds all
// of it hashes alone; otherwise the missing elements come to rank 0, a chunk at a time. Collective.
runtime::Task<Result<std::string>> hash_parameters(runtime::Runtime& rt, comm::Group& group,
                                                   const HeldState& holding, std::int64_t step,
                                                   std::int64_t chunk_bytes = StreamCall::kChunkBytes);

}  // namespace trireme::engine
