// Schemes by which samples get to fully connected layers whose weights are cut (Krizhevsky 2014, section 4).
#pragma once

#include <cstdint>
#include <string_view>

namespace trireme::parallel {

enum class FcScheme : std::uint8_t { kBroadcast, kVertical, kHorizontal };
inline constexpr std::string_view kFcSchemes[] = {"broadcast", "vertical", "horizontal"};  // as they are told

// One of kFcSchemes.
FcScheme fc_scheme_of(std::string_view name);

}  // namespace trireme::parallel
