// Status and Result: how functions report caller mistakes and a failing world. Broken invariants use check.h
// instead.
//
// A Status is one pointer: ok() costs nothing. Message form: `[area] what happened: got X, expected Y; next
// step`. Failures of communication also carry who and where (rank, peer, operation, tag), so that callers
// never parse text.
#pragma once

#include <fmt/core.h>

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

#include "trireme/base/check.h"

namespace trireme {

enum class Code : std::uint8_t {
  kOk = 0,
  kInvalid,      // the caller asked for something that makes no sense
  kNotFound,     // a named thing does not exist
  kExists,       // a thing is already there
  kUnavailable,  // a peer, device or file cannot be reached now
  kPeerLost,     // a rank closed its connection, died or fell silent
  kMismatch,     // ranks disagree on what they are doing
  kDeadline,     // a wait passed its deadline
  kCancelled,    // somebody cancelled the work
  kCorrupt,      // bytes that do not mean what they should
  kExhausted,    // memory, disk or another limit is used up
  kInternal,     // the world failed in a way nobody foresaw
};

std::string_view code_name(Code code);

// Who and where, for failures that involve ranks.
struct ErrorContext {
  std::optional<int> rank;  // the rank that reports
  std::optional<int> peer;  // the culprit
  std::string operation;    // e.g. "allreduce bucket 0, step 17"
  std::string tag;          // message identity or file offset
  std::string reason;       // short, e.g. "connection closed"
};

class [[nodiscard]] Status {
 public:
  Status() = default;
  Status(Code code, std::string message);
  Status(Code code, std::string message, ErrorContext context);

  // A Status is cheap to copy: the failure is shared and immutable.
  bool ok() const { return rep_ == nullptr; }
  Code code() const { return rep_ ? rep_->code : Code::kOk; }
  const std::string& message() const;
  const ErrorContext& context() const;
  std::string to_string() const;  // "peer lost: [comm] ..." or "ok"

  // The same failure with `prefix` before the message, for callers that know more ("job.toml:3:1: ").
  Status with_prefix(std::string_view prefix) const;

 private:
  struct Rep {
    Code code;
    std::string message;
    ErrorContext context;
  };
  std::shared_ptr<const Rep> rep_;
};

inline Status ok_status() { return {}; }

template <typename... Args>
Status error(Code code, fmt::format_string<Args...> text, Args&&... args) {
  return Status(code, fmt::format(text, std::forward<Args>(args)...));
}

// A T or the Status that says why there is none.
template <typename T>
class [[nodiscard]] Result {
 public:
  using value_type = T;
  Result(T value)
      : state_(std::in_place_index<1>, std::move(value)) {}  // NOLINT(google-explicit-constructor)
  Result(Status status) : state_(std::in_place_index<0>, std::move(status)) {  // NOLINT
    TR_CHECK(!std::get<0>(state_).ok(), "a Result needs a value or a failure, got an ok Status");
  }

  bool ok() const { return state_.index() == 1; }
  Status status() const { return ok() ? Status() : std::get<0>(state_); }

  T& value() & { return checked(); }
  const T& value() const& { return const_cast<Result*>(this)->checked(); }
  T&& value() && { return std::move(checked()); }
  T& operator*() & { return checked(); }
  const T& operator*() const& { return value(); }
  T&& operator*() && { return std::move(checked()); }
  T* operator->() { return &checked(); }
  const T* operator->() const { return &value(); }

 private:
  T& checked() {
    TR_CHECK(ok(), "value() of a failed Result: {}", std::get<0>(state_).to_string());
    return std::get<1>(state_);
  }
  std::variant<Status, T> state_;
};

}  // namespace trireme

#define TR_CONCAT_INNER(a, b) a##b
#define TR_CONCAT(a, b) TR_CONCAT_INNER(a, b)

// Leave the function with the failure. The CO_ forms are for coroutines.
#define TR_RETURN_IF_ERROR(expr)                                                    \
  do {                                                                              \
    if (::trireme::Status tr_status_ = (expr); !tr_status_.ok()) return tr_status_; \
  } while (false)
#define TR_CO_RETURN_IF_ERROR(expr)             \
  do {                                          \
    ::trireme::Status tr_status_ = (expr);      \
    if (!tr_status_.ok()) co_return tr_status_; \
  } while (false)
#define TR_ASSIGN_OR_RETURN_IMPL(tmp, lhs, expr) \
  auto tmp = (expr);                             \
  if (!tmp.ok()) return tmp.status();            \
  lhs = std::move(tmp).value()
#define TR_ASSIGN_OR_RETURN(lhs, expr) TR_ASSIGN_OR_RETURN_IMPL(TR_CONCAT(tr_result_, __LINE__), lhs, expr)
#define TR_CO_ASSIGN_OR_RETURN_IMPL(tmp, lhs, expr) \
  auto tmp = (expr);                                \
  if (!tmp.ok()) co_return tmp.status();            \
  lhs = std::move(tmp).value()
#define TR_CO_ASSIGN_OR_RETURN(lhs, expr) \
  TR_CO_ASSIGN_OR_RETURN_IMPL(TR_CONCAT(tr_result_, __LINE__), lhs, expr)
