#include "trireme/base/near_names.h"

#include <fmt/format.h>
#include <algorithm>

#include "trireme/base/edit_distance.h"

namespace trireme {

std::vector<std::string> nearest_names(std::string_view name, std::span<const std::string_view> names) {
  constexpr std::size_t kMost = 3, kLongest = 64;
  // About one letter in three may be wrong, so that two swapped ones of five pass ("trian"): further away it
  // is another word.
  const std::size_t near = std::max<std::size_t>(1, (std::min(name.size(), kLongest) + 1) / 3);
  constexpr std::size_t kLeastWithin = 3;  // letters that say something when they are part of a name
  std::vector<std::pair<std::size_t, std::string>> ranked;
  for (const std::string_view n : names) {
    const bool within = std::min(name.size(), n.size()) >= kLeastWithin &&
                        (n.find(name) != std::string_view::npos || name.find(n) != std::string_view::npos);
    const std::size_t distance = within ? 0 : edit_distance(name.substr(0, kLongest), n);
    if (distance <= near) ranked.emplace_back(distance, n);
  }
  std::stable_sort(ranked.begin(), ranked.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<std::string> nearest;
  for (const auto& [d, n] : ranked)
    if (nearest.size() < kMost && d <= ranked.front().first + 1) nearest.push_back(n);
  return nearest;
}

std::string did_you_mean(std::string_view name, std::span<const std::string_view> names) {
  const std::vector<std::string> near = nearest_names(name, names);
  return near.empty() ? "" : fmt::format("; did you mean {}?", joined(near));
}

std::string joined(std::span<const std::string> items) { return fmt::format("{}", fmt::join(items, ", ")); }

}  // namespace trireme
