#include "trireme/net/transport.h"

namespace trireme::net {

Identity Identity::unpack(std::uint64_t high, std::uint64_t low) {
  return {.epoch = static_cast<std::uint32_t>(high >> 32),
          .group = static_cast<std::uint16_t>(high >> 16),
          .slot = static_cast<std::uint16_t>(high),
          .step = static_cast<std::uint32_t>(low >> 32),
          .part = static_cast<std::uint32_t>(low)};
}

std::string Identity::to_string() const {
  return fmt::format("epoch {} group {} slot {} step {} part {}", epoch, group, slot, step, part);
}

Fingerprint Fingerprint::unpack(std::uint64_t word) {
  return {.kind = static_cast<std::uint8_t>(word >> 56),
          .dtype = static_cast<std::uint8_t>(word >> 48),
          .format = static_cast<std::uint8_t>(word >> 40),
          .count = word & 0xFF'FFFF'FFFFULL};
}

std::string Fingerprint::to_string() const {
  return fmt::format("kind {} dtype {} format {} count {}", kind, dtype, format, count);
}

void Transport::forget_peer(int peer, const Status& /*why*/) {
  TR_CHECK(false, "{} does not survive the loss of rank {}", name(), peer);
}
void Transport::forget_group(std::uint16_t group, const Status& /*why*/) {
  TR_CHECK(false, "{} does not survive a loss in group {}", name(), group);
}

runtime::Task<Result<std::unique_ptr<Window>>> Transport::make_window(std::uint64_t /*bytes*/,
                                                                      TimeNs /*deadline*/) {
  co_return error(Code::kUnavailable, "[net] {} has no one-sided access; use shm or mpi, or messages",
                  name());
}

}  // namespace trireme::net
