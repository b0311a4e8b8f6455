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

namespace {
Status check_rank(int rank, int world) {
  if (rank >= 0 && rank < world) return {};
  return error(Code::kInvalid, "[cli] --fault got rank {}, expected 0 to {}: the job has {} ranks", rank,
               world - 1, world);
}
}  // namespace

Status check_faults(const std::vector<FaultOption>& faults, int world) {
  for (const FaultOption& f : faults) TR_RETURN_IF_ERROR(check_rank(f.rank, world));
  return {};
}

Status check_faults(const std::vector<runtime::FaultSpec>& faults, int world) {
  for (const runtime::FaultSpec& f : faults) TR_RETURN_IF_ERROR(check_rank(f.runtime, world));
  return {};
}

std::vector<runtime::RealFault> real_faults(const std::vector<FaultOption>& faults, int rank) {
  std::vector<runtime::RealFault> out;
  for (const FaultOption& f : faults)
    if (f.rank == rank) out.push_back({find_kind(f.kind)->real, f.site, f.index});
  return out;
}

std::vector<runtime::FaultSpec> virtual_faults(const std::vector<FaultOption>& faults) {
  std::vector<runtime::FaultSpec> out;
  for (const FaultOption& f : faults) {
    runtime::FaultSpec spec;
    spec.kind = find_kind(f.kind)->simulated;
    spec.runtime = f.rank;
    spec.site = f.site;
    spec.index = f.index;
    out.push_back(std::move(spec));
  }
  return out;
}

}  // namespace trireme::cli
