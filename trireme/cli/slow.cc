#include "trireme/cli/slow.h"

#include <charconv>
#include <string_view>

namespace trireme::cli {
namespace {

// std::from_chars for doubles is not in every library this is built with.
bool parse_factor(std::string_view text, double& factor) {
  const std::string copy(text);
  char* end = nullptr;
  factor = std::strtod(copy.c_str(), &end);
  return !copy.empty() && end == copy.c_str() + copy.size();
}

bool parse_one(std::string_view text, start::SlowRank& out) {
  constexpr std::string_view kRank = "rank=", kFactor = ",factor=";
  const std::size_t comma = text.find(kFactor);
  if (!text.starts_with(kRank) || comma == std::string_view::npos) return false;
  const std::string_view rank = text.substr(kRank.size(), comma - kRank.size());
  const auto [at, failure] = std::from_chars(rank.data(), rank.data() + rank.size(), out.rank);
  return failure == std::errc() && at == rank.data() + rank.size() && out.rank >= 0 &&
         parse_factor(text.substr(comma + kFactor.size()), out.factor) && out.factor >= 1 &&
         out.factor <= 1000;
}

}  // namespace

Result<std::vector<start::SlowRank>> parse_slow(const std::vector<std::string>& texts) {
  std::vector<start::SlowRank> all;
  for (const std::string& text : texts) {
    start::SlowRank slow;
    if (!parse_one(text, slow))
      return error(Code::kInvalid,
                   "[cli] --slow got '{}', expected rank=R,factor=F with F from 1 to 1000, like "
                   "rank=2,factor=4",
                   text);
    all.push_back(slow);
  }
  return all;
}

}  // namespace trireme::cli
