// Text from one rank to all, and to another.
#pragma once

#include <string>

#include "trireme/comm/group.h"

namespace trireme::engine {

struct TextCall {
  int root = 0;
  std::uint32_t step = 0;
  std::uint16_t size_slot = 0, slot = 0;  // of the two messages
  const char* label = "";
};

// Text from one rank to another, which both make the call: two messages, `iteration` and the next.
struct PeerText {
  std::uint16_t slot = 0;
  std::uint32_t step = 0;
  int iteration = 0;
  const char* label = "";
};
runtime::Task<Status> send_text(comm::Group& group, PeerText what, int peer, std::string text);
runtime::Task<Result<std::string>> recv_text(comm::Group& group, PeerText what, int peer);

// What the root gave as `text`, on every rank; others give anything. On a phantom Runtime only sizes travel:
// everybody gives a text of the size to be charged for, and gets it back.
runtime::Task<Result<std::string>> broadcast_text(runtime::Runtime& rt, comm::Group& group, TextCall what,
                                                  std::string text);

}  // namespace trireme::engine
