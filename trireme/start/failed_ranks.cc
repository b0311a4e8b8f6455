#include "trireme/start/failed_ranks.h"

#include <algorithm>

#include "trireme/agree/agree.h"
#include "trireme/base/json.h"
#include "trireme/start/exit_code.h"

namespace trireme::start {
namespace {

using runtime::Task;

// "rank 1" of the first that failed by itself, for those that had to be killed; empty: none did.
std::string first_failed(const std::vector<launch::RankExit>& exits, const job::Roles& roles) {
  for (std::size_t r = 0; r < exits.size(); ++r)
    if (!exits[r].status.ok() && !exits[r].killed_by_launcher) return roles.rank_text(static_cast<int>(r));
  return "";
}

// ", 5" or ", 5 (data 1, model 0)": a rank that says what those before it said.
std::string one_more(int rank, const job::Roles& roles) {
  const std::string place = roles.mesh.place_text(rank);
  return place.empty() ? fmt::format(", {}", rank) : fmt::format(", {} ({})", rank, place);
}

std::string how_killed(const std::string& culprit, TimeNs grace) {
  return fmt::format("still running {:.0f} s after {}; killed by the launcher", to_seconds(grace),
                     culprit.empty() ? "the job ended" : culprit + " failed");
}

// What a rank that could write no error file said last: out of memory, or of descriptors.
Task<std::string> last_error(runtime::Runtime& rt, std::string log) {
  constexpr std::string_view kMark = "\nerror: ";
  const Result<Bytes> bytes = co_await rt.files().read(std::move(log));
  if (!bytes.ok()) co_return "";
  const std::string text = "\n" + std::string(as_text(*bytes));
  const std::size_t at = text.rfind(kMark);
  if (at == std::string::npos) co_return "";
  const std::string said = text.substr(at + kMark.size());
  co_return said.substr(0, said.find('\n'));
}

// The first error file that knows a culprit decides; a rank that failed by itself is its own.
void take_context(const Json& json, int rank, ErrorContext& context) {
  if (context.peer && !context.operation.empty()) return;
  const int culprit = json.value("culprit", -1);
  context.peer = culprit >= 0 ? culprit : rank;
  context.operation = json.value("operation", "");
  context.reason = json.value("reason", "");
  if (context.reason.empty()) context.reason = json.value("message", "");
}

std::string how_it_ended(const launch::RemoteSpec& spec, const launch::RankExit& e, const std::string& host,
                         const std::string& said) {
  const std::string tail = said.empty() ? "" : ": " + said;
  if (e.killed_by_launcher) return "still running after another rank ended; killed by the launcher";
  if (e.status.signal != 0) return fmt::format("{} died by signal {}", spec.ssh[0], e.status.signal);
  if (e.status.code == 255)
    return fmt::format("'{}' could not reach the host{}; try: {} {} true", spec.ssh[0], tail, spec.ssh[0],
                       host);
  if (e.status.code == 126 || e.status.code == 127)
    return fmt::format("'{}' does not run there{}; copy it, or give --remote-binary PATH", spec.binary, tail);
  if (e.status.code > 128) return fmt::format("died by signal {}{}", e.status.code - 128, tail);
  return said.empty() ? fmt::format("ended with code {}", e.status.code) : said;
}

}  // namespace

std::vector<bool> expendable_ranks(const job::Job& job) {
  const auto row = agree::find_agreement(job.parallel.agreement);
  if (!row.ok()) return {};
  if ((*row)->pace != agree::Pace::kFree && (*row)->pace != agree::Pace::kBound) return {};
  const job::Roles roles = job::roles_of(job);
  std::vector<bool> expendable(static_cast<std::size_t>(roles.world), false);
  for (const int rank : roles.spare_ranks()) expendable[static_cast<std::size_t>(rank)] = true;
  return expendable;
}

Task<Status> describe_ranks(runtime::Runtime& rt, const record::RunFolder& folder, const job::Roles& roles,
                            const std::vector<launch::RankExit>& exits, TimeNs grace) {
  Code code = Code::kPeerLost;
  ErrorContext first;                                      // that names a culprit
  std::vector<std::pair<std::string, std::string>> lines;  // what, which ranks
  for (std::size_t r = 0; r < exits.size(); ++r) {
    const launch::RankExit& e = exits[r];
    std::string what;
    Result<Bytes> bytes = co_await rt.files().read(fmt::format("{}/log/rank-{}.error.json", folder.path, r));
    if (bytes.ok()) {
      const Result<Json> json = parse_json(as_text(*bytes), "error");
      what = json.ok() ? json->value("message", "") : "unreadable error file";
      if (json.ok() && json->value("code", "") == code_name(Code::kInvalid)) code = Code::kInvalid;
      if (json.ok()) take_context(*json, static_cast<int>(r), first);
    } else if (e.killed_by_launcher) {
      what = how_killed(first_failed(exits, roles), grace);
    } else if (e.status.signal != 0) {
      what = fmt::format("died by signal {}", e.status.signal);
      if (!first.peer) first.peer = static_cast<int>(r), first.reason = what;
    } else if (e.status.code != 0) {
      what = co_await last_error(rt, folder.log_of(static_cast<int>(r)));
      if (what.empty())
        what = fmt::format("ended with code {}{}", e.status.code, r == 0 ? "; see its message above" : "");
    } else {
      continue;
    }
    const auto same =
        std::find_if(lines.begin(), lines.end(), [&](const auto& l) { return l.first == what; });
    if (same == lines.end()) {
      lines.emplace_back(std::move(what), roles.name_of(static_cast<int>(r)));
    } else {
      same->second += one_more(static_cast<int>(r), roles);
    }
  }
  std::string text = "[launch] the job failed:";
  for (const auto& [what, ranks] : lines) text += fmt::format("\n  {}: {}", ranks, what);
  co_return Status(code, text, first);
}

Task<Status> describe_failure(runtime::Runtime& rt, const record::RunFolder& folder, const job::Roles& roles,
                              const std::vector<launch::RankExit>& exits, TimeNs grace) {
  const Status failed = co_await describe_ranks(rt, folder, roles, exits, grace);
  // What is wrong with the command stays wrong.
  const char* again =
      failed.code() == Code::kInvalid ? "" : "the same command resumes from the last checkpoint; ";
  std::string text = fmt::format("{}\n{}logs: {}/log", failed.message(), again, folder.path);
  co_return Status(failed.code(), std::move(text), failed.context());
}

bool ended_well(const launch::RankExit& e) {
  return e.status.ok() || (e.status.signal == 0 && e.status.code == kExitStopped);
}

Status describe_remote_failure(const launch::RemoteSpec& spec, const job::Roles& roles,
                               const std::vector<int>& place, const std::vector<launch::RankExit>& exits) {
  Code code = Code::kPeerLost;
  std::vector<std::pair<std::string, std::string>> lines;  // which ranks; where, and what
  for (std::size_t r = 0; r < exits.size(); ++r) {
    if (ended_well(exits[r])) continue;
    if (exits[r].status.code == kExitUsage) code = Code::kInvalid;
    const std::string& host = spec.hosts[static_cast<std::size_t>(place[r])].name;
    std::string said = exits[r].said;
    const std::string prefix = fmt::format("error: rank {}: ", r);
    if (said.starts_with(prefix)) said.erase(0, prefix.size());
    std::string what = fmt::format(" on {}: {}", host, how_it_ended(spec, exits[r], host, said));
    if (!lines.empty() && lines.back().second == what)
      lines.back().first += one_more(static_cast<int>(r), roles);
    else
      lines.emplace_back(roles.rank_text(static_cast<int>(r)), std::move(what));
  }
  std::string text = "[launch] the job failed:";
  for (const auto& [ranks, what] : lines) text += fmt::format("\n  {}{}", ranks, what);
  return Status(code, text + "\nthe same command resumes from the last checkpoint");
}

std::optional<std::vector<std::string>> lost_ranks(const std::vector<launch::RankExit>& exits,
                                                   const std::vector<bool>& expendable, TimeNs grace) {
  std::vector<std::string> lines;
  for (std::size_t r = 0; r < exits.size(); ++r) {
    const launch::RankExit& e = exits[r];
    if (e.status.ok()) continue;
    if (!exits[0].status.ok() || r >= expendable.size() || !expendable[r]) return std::nullopt;
    lines.push_back(fmt::format("worker {} {}; the others continued without it", r,
                                e.killed_by_launcher   ? how_killed("", grace)
                                : e.status.signal != 0 ? fmt::format("died by signal {}", e.status.signal)
                                                       : fmt::format("ended with code {}", e.status.code)));
  }
  return lines;
}

}  // namespace trireme::start
