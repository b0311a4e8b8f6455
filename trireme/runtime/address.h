// Where a TCP stream ends, as people write it: "node7:4711", "127.0.0.1:4711", "[::1]:4711".
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "trireme/base/status.h"

namespace trireme::runtime {

struct HostPort {
  std::string host;
  std::uint16_t port = 0;

  std::string to_string() const;
  friend bool operator==(const HostPort&, const HostPort&) = default;
};

// kInvalid says what is missing. An IPv6 host stands in brackets.
Result<HostPort> parse_host_port(std::string_view text);

}  // namespace trireme::runtime
