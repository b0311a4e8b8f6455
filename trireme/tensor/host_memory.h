// What this process has of the host's memory in tensors: the bytes that cpu_device() gave out, and others
// that are counted along. For reports and tests, never for decisions. Thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

namespace trireme {

struct HostMemory {
  std::int64_t live_bytes = 0;
  std::int64_t peak_bytes = 0;  // the most since the process began, or since restart_host_peak()
};
HostMemory host_memory();
// The peak begins anew at what is live now.
void restart_host_peak();

// Memory from elsewhere, such as a window that ranks share: counted until the last owner lets it go.
std::shared_ptr<std::byte> count_along(std::shared_ptr<std::byte> memory, std::size_t bytes);

// So much of what is counted takes no memory for now, and then again.
void count_off(std::size_t bytes);
void count_again(std::size_t bytes);

// Memory of the host, 64-byte aligned and uninitialised; its end gives it back. Null where there is none.
std::shared_ptr<std::byte> take_host_memory(std::size_t bytes);

}  // namespace trireme
