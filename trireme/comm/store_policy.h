// StorePolicy: whether blocks are laid down through the caches or past them, learnt from the calls
// themselves.
//
// Cores that share a cache are two times faster through it; cores that do not are up to seven times faster
// past it, and no one can tell which is which (virtual machines even move). Both ways are tried now and
// then; the better one serves the rest. It changes how long a call takes, never its bits, and is each rank's
// own affair.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>

#include "trireme/base/units.h"

namespace trireme::comm {

class StorePolicy {
 public:
  // For a call of so many bytes. True: past the caches.
  bool choose(std::uint64_t bytes) {
    Class& c = class_of(bytes);
    const std::uint32_t call = c.calls++;
    if (call < 2) return call == 1;
    const bool best = c.ns_per_byte[1] < c.ns_per_byte[0];
    return call % kTrial == 0 ? !best : best;
  }
  // How long it took, from when everybody was there. The least counts, slowly forgotten: others may have
  // been in the way.
  void learn(std::uint64_t bytes, bool streaming, TimeNs duration) {
    double& known = class_of(bytes).ns_per_byte[streaming ? 1 : 0];
    const double now = static_cast<double>(duration) / static_cast<double>(bytes);
    known = std::min(known * kForget, now);
  }

 private:
  static constexpr std::uint32_t kTrial = 32;
  static constexpr double kForget = 1.1;
  struct Class {
    std::array<double, 2> ns_per_byte{1e6, 1e6};
    std::uint32_t calls = 0;
  };
  // Four times the size is another class: what fits a cache behaves differently.
  Class& class_of(std::uint64_t bytes) {
    return classes_[static_cast<std::size_t>(std::bit_width(bytes)) / 2];
  }
  std::array<Class, 33> classes_;
};

}  // namespace trireme::comm
