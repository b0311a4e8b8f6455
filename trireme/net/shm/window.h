// Windows of the shm transport: stretches of the window area that every exchange segment ends with. A rank
// takes a stretch of its own area and tells the others where it is; all of them have the segment mapped.
#pragma once

#include <map>
#include <memory>
#include <vector>

#include "trireme/net/endpoint.h"
#include "trireme/net/shm/rendezvous.h"

namespace trireme::net::shm {

// Who has what of this rank's window area. First fit, in pages.
class WindowArea {
 public:
  explicit WindowArea(std::uint64_t bytes) { free_[0] = bytes; }
  Result<std::uint64_t> take(std::uint64_t bytes);
  void give_back(std::uint64_t offset, std::uint64_t bytes);

 private:
  std::map<std::uint64_t, std::uint64_t> free_;  // offset -> bytes
};

// What windows need of their transport; shared, since a window may outlive it (and is then of no use).
struct WindowHost {
  std::shared_ptr<Endpoint> endpoint;
  WindowArea area;
  std::vector<std::byte*> areas;          // of every rank
  std::vector<runtime::Doorbell*> bells;  // of every rank; null: its own
};

// A window whose part of rank r is at offsets[r] of its area. Gives its own part back when it goes.
std::unique_ptr<Window> make_shm_window(std::shared_ptr<WindowHost> host, std::vector<std::uint64_t> offsets,
                                        std::uint64_t bytes);

}  // namespace trireme::net::shm
