#include "trireme/base/status.h"

namespace trireme {

std::string_view code_name(Code code) {
  switch (code) {
    case Code::kOk:
      return "ok";
    case Code::kInvalid:
      return "invalid";
    case Code::kNotFound:
      return "not found";
    case Code::kExists:
      return "exists";
    case Code::kUnavailable:
      return "unavailable";
    case Code::kPeerLost:
      return "peer lost";
    case Code::kMismatch:
      return "mismatch";
    case Code::kDeadline:
      return "deadline";
    case Code::kCancelled:
      return "cancelled";
    case Code::kCorrupt:
      return "corrupt";
    case Code::kExhausted:
      return "exhausted";
    case Code::kInternal:
      return "internal";
  }
  return "unknown";
}

Status::Status(Code code, std::string message) : Status(code, std::move(message), ErrorContext{}) {}

Status::Status(Code code, std::string message, ErrorContext context) {
  TR_CHECK(code != Code::kOk, "a failure needs a code other than ok: {}", message);
  rep_ = std::make_shared<const Rep>(Rep{code, std::move(message), std::move(context)});
}

const std::string& Status::message() const {
  static const std::string kEmpty;
  return rep_ ? rep_->message : kEmpty;
}

const ErrorContext& Status::context() const {
  static const ErrorContext kNone;
  return rep_ ? rep_->context : kNone;
}

std::string Status::to_string() const {
  return ok() ? "ok" : fmt::format("{}: {}", code_name(rep_->code), rep_->message);
}

Status Status::with_prefix(std::string_view prefix) const {
  if (ok()) return *this;
  return Status(rep_->code, fmt::format("{}{}", prefix, rep_->message), rep_->context);
}

}  // namespace trireme
