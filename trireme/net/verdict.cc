#include "trireme/net/verdict.h"

namespace trireme::net {
namespace {

std::string message(const Verdict& v, int self, const RankNames& names) {
  const std::string where = v.operation.empty() ? "no operation" : v.operation;
  const std::string who = v.culprit == self ? names.self_text(self) : names.text(v.culprit);
  switch (v.code) {
    case Code::kPeerLost:
      return fmt::format("[comm] {} was {} in {}: {}; restart the job, it resumes from the last checkpoint",
                         who, v.culprit == self ? "evicted" : "lost", where, v.reason);
    case Code::kMismatch:
      return fmt::format(
          "[comm] {} made another call than the others in {}: {}; every rank must make the same calls "
          "in the same step",
          who, where, v.reason);
    case Code::kDeadline:
      return fmt::format("[comm] {} is stuck in {}: {}; every rank must make the same calls in the same step",
                         who, where, v.reason);
    default:
      return fmt::format("[comm] {} failed in {}: {}; see its log, then restart the job", who, where,
                         v.reason);
  }
}

}  // namespace

Status to_status(const Verdict& v, int self, const RankNames& names) {
  return Status(
      v.code, message(v, self, names),
      ErrorContext{.rank = self, .peer = v.culprit, .operation = v.operation, .tag = {}, .reason = v.reason});
}

Status to_notice(const Verdict& v, int self, const RankNames& names) {
  return Status(
      Code::kPeerLost,
      fmt::format("[comm] {} was lost in {}: {}; the others go on without it", names.text(v.culprit),
                  v.operation.empty() ? "no operation" : v.operation, v.reason),
      ErrorContext{.rank = self, .peer = v.culprit, .operation = v.operation, .tag = {}, .reason = v.reason});
}

}  // namespace trireme::net
