// RankNames: how texts call ranks. The layers below know no mesh; whoever does says where ranks are in it.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "trireme/base/status.h"

namespace trireme::net {

struct RankNames {
  // By rank: "data 1, model 0"; empty, or fewer than there are ranks: plain numbers.
  std::vector<std::string> coordinates = {};

  // "rank 5 (data 1, model 0)", or "rank 5".
  std::string text(int rank) const {
    const std::string_view at = coordinates_of(rank);
    return at.empty() ? fmt::format("rank {}", rank) : fmt::format("rank {} ({})", rank, at);
  }
  // "this rank (5, data 1, model 0)", or "this rank (5)".
  std::string self_text(int rank) const {
    const std::string_view at = coordinates_of(rank);
    return at.empty() ? fmt::format("this rank ({})", rank) : fmt::format("this rank ({}, {})", rank, at);
  }

 private:
  std::string_view coordinates_of(int rank) const {
    const auto at = static_cast<std::size_t>(rank);
    return rank >= 0 && at < coordinates.size() ? std::string_view(coordinates[at]) : std::string_view();
  }
};

}  // namespace trireme::net
