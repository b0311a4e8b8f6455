// Whether this build is under a sanitizer, where a test takes ten times as long: those that try many seeds in
// a world of one thread try fewer.
#pragma once

#include <cstdint>

namespace trireme {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool kUnderSanitizer = true;
#else
inline constexpr bool kUnderSanitizer = false;
#endif

constexpr std::uint64_t num_seeds(std::uint64_t otherwise) {
  return kUnderSanitizer ? (otherwise + 9) / 10 : otherwise;
}

}  // namespace trireme
