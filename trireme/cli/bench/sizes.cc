#include "trireme/cli/bench/sizes.h"

#include <algorithm>
#include <charconv>

#include "trireme/base/units.h"

namespace trireme::cli::bench {
namespace {

constexpr std::uint64_t kLargest = std::uint64_t{16} << 30;

std::vector<std::string_view> split(std::string_view text) {
  std::vector<std::string_view> parts;
  for (std::size_t comma = text.find(','); comma != std::string_view::npos; comma = text.find(',')) {
    parts.push_back(text.substr(0, comma));
    text.remove_prefix(comma + 1);
  }
  parts.push_back(text);
  return parts;
}

Result<std::uint64_t> parse_size(std::string_view text) {
  TR_ASSIGN_OR_RETURN(const std::uint64_t bytes, parse_bytes(text));
  if (bytes < 4 || bytes % 4 != 0 || bytes > kLargest)
    return error(Code::kInvalid,
                 "[bench] not a size of f32 values: got '{}', expected a multiple of 4 up to 16G", text);
  return bytes;
}

Result<int> parse_int(std::string_view text, const char* what, int least) {
  int value = 0;
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (failure != std::errc() || end != text.data() + text.size() || value < least)
    return error(Code::kInvalid, "[bench] not a {}: got '{}', expected an integer from {}", what, text,
                 least);
  return value;
}

// FIRST..LAST or FIRST..LAST*FACTOR.
Status add_range(std::string_view text, std::size_t dots, std::vector<std::uint64_t>& out) {
  std::string_view last = text.substr(dots + 2);
  std::uint64_t factor = 4;
  if (const std::size_t star = last.find('*'); star != std::string_view::npos) {
    TR_ASSIGN_OR_RETURN(const int given, parse_int(last.substr(star + 1), "factor", 2));
    factor = static_cast<std::uint64_t>(given);
    last = last.substr(0, star);
  }
  TR_ASSIGN_OR_RETURN(const std::uint64_t from, parse_size(text.substr(0, dots)));
  TR_ASSIGN_OR_RETURN(const std::uint64_t to, parse_size(last));
  if (from > to)
    return error(Code::kInvalid, "[bench] the range '{}' is empty: expected SMALLEST..LARGEST", text);
  for (std::uint64_t size = from; size <= to; size *= factor) out.push_back(size);
  return {};
}

template <typename T>
void sort_unique(std::vector<T>& values) {
  std::sort(values.begin(), values.end());
  values.erase(std::unique(values.begin(), values.end()), values.end());
}

}  // namespace

Result<std::vector<std::uint64_t>> parse_sizes(std::string_view text) {
  std::vector<std::uint64_t> sizes;
  for (const std::string_view part : split(text)) {
    if (const std::size_t dots = part.find(".."); dots != std::string_view::npos) {
      TR_RETURN_IF_ERROR(add_range(part, dots, sizes));
    } else {
      TR_ASSIGN_OR_RETURN(const std::uint64_t size, parse_size(part));
      sizes.push_back(size);
    }
  }
  sort_unique(sizes);
  return sizes;
}

Result<std::vector<int>> parse_worlds(std::string_view text) {
  std::vector<int> worlds;
  for (const std::string_view part : split(text)) {
    TR_ASSIGN_OR_RETURN(const int world, parse_int(part, "world size", 1));
    if (world > 1024)
      return error(Code::kInvalid, "[bench] too many ranks for one host: got {}, expected at most 1024",
                   world);
    worlds.push_back(world);
  }
  sort_unique(worlds);
  return worlds;
}

std::string short_bytes(std::uint64_t bytes) {
  if (bytes >= 1U << 30 && bytes % (1U << 30) == 0) return fmt::format("{} GB", bytes >> 30);
  if (bytes >= 1U << 20 && bytes % (1U << 20) == 0) return fmt::format("{} MB", bytes >> 20);
  if (bytes >= 1U << 10 && bytes % (1U << 10) == 0) return fmt::format("{} KB", bytes >> 10);
  return fmt::format("{} B", bytes);
}

}  // namespace trireme::cli::bench
