// Which ops have kernels that read and write bf16 as it is, or images with the channels last.
#pragma once

#include <set>
#include <string>

namespace trireme::kernel {

using OpNames = std::set<std::string, std::less<>>;

// For the passes `absorb_casts` and `channels_last`, on the CPU. Empty where the processor has no units for
// bf16, or the library does not use them: f32 between casts is as fast there.
OpNames adaptable_cpu_ops();
OpNames channels_last_cpu_ops();

}  // namespace trireme::kernel
