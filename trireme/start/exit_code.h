// How a process of `trireme` ends (docs/errors.md): a launcher that reaches it through ssh knows no more.
#pragma once

#include "trireme/base/status.h"

namespace trireme::start {

inline constexpr int kExitOk = 0, kExitFailed = 1, kExitUsage = 2, kExitStopped = 130;

inline int exit_code_of(const Status& status) {
  if (status.ok()) return kExitOk;
  return status.code() == Code::kInvalid ? kExitUsage : kExitFailed;
}

}  // namespace trireme::start
