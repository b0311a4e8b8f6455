// A check that replicas which must be equal are.
#pragma once

#include "trireme/comm/group.h"
#include "trireme/io/safetensors.h"

namespace trireme::engine {

// Hashes every tensor here and compares the hashes of all ranks: the same verdict everywhere. A rank is told
// apart by the majority, and by rank 0 where there is none. kCorrupt names rank and tensor. Fault point:
// {"weights", step} flips a bit of the first tensor.
runtime::Task<Status> check_replicas(runtime::Runtime& rt, comm::Group& group, std::int64_t step,
                                     io::NamedTensors tensors);

// The verdict over hashes[rank * names.size() + tensor]. Pure.
Status compare_replicas(std::span<const std::string> names, std::span<const std::int64_t> hashes,
                        std::int64_t step);

}  // namespace trireme::engine
