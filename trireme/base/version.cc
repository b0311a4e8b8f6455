#include "trireme/base/version.h"

#include <fmt/core.h>

#if !defined(TRIREME_VERSION) || !defined(TRIREME_COMMIT)
#error "cmake/layers.cmake defines TRIREME_VERSION and TRIREME_COMMIT for this file"
#endif

namespace trireme {
namespace {

#if defined(__clang__)
constexpr const char* kCompiler = __VERSION__;  // "Clang 14.0.6" or the like: it says its name
#else
constexpr const char* kCompiler = "gcc " __VERSION__;
#endif

}  // namespace

const char* version() { return TRIREME_VERSION; }

std::string build_id() { return fmt::format("{}, {}", TRIREME_COMMIT, kCompiler); }

}  // namespace trireme
