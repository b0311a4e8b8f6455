// "did you mean ...?" for names that are not in a table.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace trireme {

// The names that are spelled like `name`, nearest first, at most three; empty where none is near.
std::vector<std::string> nearest_names(std::string_view name, std::span<const std::string_view> names);
// "; did you mean conv2d?", or nothing where no name is near.
std::string did_you_mean(std::string_view name, std::span<const std::string_view> names);
// ", "-joined.
std::string joined(std::span<const std::string> items);

}  // namespace trireme
