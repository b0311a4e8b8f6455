#include "trireme/runtime/address.h"

#include <charconv>

namespace trireme::runtime {

std::string HostPort::to_string() const {
  const bool v6 = host.find(':') != std::string::npos;
  return v6 ? fmt::format("[{}]:{}", host, port) : fmt::format("{}:{}", host, port);
}

Result<HostPort> parse_host_port(std::string_view text) {
  const auto invalid = [text] {
    return error(Code::kInvalid,
                 "[network] no address: got '{}', expected host:port, e.g. 127.0.0.1:4711 or [::1]:4711",
                 text);
  };
  const std::size_t colon = text.rfind(':');
  if (colon == std::string_view::npos) return invalid();
  std::string_view host = text.substr(0, colon);
  const std::string_view digits = text.substr(colon + 1);
  const bool brackets = host.size() > 2 && host.front() == '[' && host.back() == ']';
  if (brackets) host = host.substr(1, host.size() - 2);
  if (host.empty() || host.size() > 255 || host.find_first_of("[]") != std::string_view::npos ||
      (!brackets && host.find(':') != std::string_view::npos))
    return invalid();
  HostPort out{std::string(host), 0};
  const auto [end, failure] = std::from_chars(digits.data(), digits.data() + digits.size(), out.port);
  if (failure != std::errc() || end != digits.data() + digits.size()) return invalid();
  return out;
}

}  // namespace trireme::runtime
