#include "trireme/cli/faults.h"

#include <array>
#include <charconv>

namespace trireme::cli {
namespace {

struct KindRow {
  const char* name;
  runtime::RealFault::Kind real;
  runtime::FaultSpec::Kind simulated;
};
constexpr std::array<KindRow, 4> kKinds{{
    {"kill", runtime::RealFault::Kind::kKill, runtime::FaultSpec::Kind::kKill},
    {"pause", runtime::RealFault::Kind::kPause, runtime::FaultSpec::Kind::kPause},
    {"miscall", runtime::RealFault::Kind::kMiscall, runtime::FaultSpec::Kind::kMiscall},
    {"error", runtime::RealFault::Kind::kError, runtime::FaultSpec::Kind::kError},
}};

const KindRow* find_kind(std::string_view name) {
  for (const KindRow& row : kKinds)
    if (name == row.name) return &row;
  return nullptr;
}

template <typename T>
bool parse_whole(std::string_view text, T& value) {
  const auto [at, failure] = std::from_chars(text.data(), text.data() + text.size(), value);
  return failure == std::errc() && at == text.data() + text.size();
}

}  // namespace

Result<FaultOption> parse_fault(std::string_view text) {
  const std::size_t colon = text.find(':'), at = text.find('@'), last = text.rfind(':');
  FaultOption fault;
  const bool shaped =
      colon != std::string_view::npos && at != std::string_view::npos && colon < at && at < last;
  if (shaped) {
    fault.kind = text.substr(colon + 1, at - colon - 1);
    fault.site = text.substr(at + 1, last - at - 1);
  }
  if (!shaped || !parse_whole(text.substr(0, colon), fault.rank) ||
      !parse_whole(text.substr(last + 1), fault.index) || find_kind(fault.kind) == nullptr)
    return error(
        Code::kInvalid,
        "[cli] --fault got '{}', expected RANK:KIND@SITE:INDEX with KIND kill, pause, miscall or error",
        text);
  return fault;
}

Status check_faults(const std::vector<runtime::FaultSpec>& faults, int world) {
  for (const runtime::FaultSpec& f : faults) TR_RETURN_IF_ERROR(start::check_fault_rank(f.runtime, world));
  return {};
}

start::RankFault real_fault(const FaultOption& fault) {
  return {fault.rank, {find_kind(fault.kind)->real, fault.site, fault.index}};
}

runtime::FaultSpec virtual_fault(const FaultOption& fault) {
  runtime::FaultSpec spec;
  spec.kind = find_kind(fault.kind)->simulated;
  spec.runtime = fault.rank;
  spec.site = fault.site;
  spec.index = fault.index;
  return spec;
}

}  // namespace trireme::cli
