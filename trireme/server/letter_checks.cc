#include "trireme/server/letter_checks.h"

#include <algorithm>

namespace trireme::server {
namespace {

using comm::Letter;

Status check_bytes(std::uint32_t slice, std::uint64_t got, std::uint64_t expected) {
  if (got == expected) return {};
  return error(Code::kMismatch, "[server] slice {}: got {} bytes, expected {}", slice, got, expected);
}

Status check_rows(std::uint32_t slice, std::uint64_t got, std::uint64_t per_row) {
  if (got == 0 || (per_row != 0 && got % per_row == 0)) return {};
  return error(Code::kMismatch, "[server] slice {}: got {} bytes of rows, expected {}", slice, got,
               per_row == 0 ? "no rows: it has none" : "whole rows");
}

// Bytes that a row takes; 0: the slice has no rows.
std::uint64_t pushed_row(const StoredSlice& slice) {
  return slice.rows ? 8 + 4 * static_cast<std::uint64_t>(slice.rows->row) : 0;
}
std::uint64_t pulled_row(const StoredSlice& slice) { return slice.rows ? 8 : 0; }

Status check_coded(int peer, const Letter<PushHead>& letter, const SharedCoder& coder) {
  if (coder != nullptr && letter.bytes > 0 && letter.bytes <= coder->max_bytes()) return {};
  return error(
      Code::kMismatch,
      "[server] slice {}: got a coded push of {} bytes from rank {}, expected {}; do all ranks run one job?",
      letter.head.slice, letter.bytes, peer,
      coder == nullptr ? "none: no codec is set here" : fmt::format("1 to {}", coder->max_bytes()));
}

Status check_factors(int peer, const Letter<PushHead>& letter, const FactorSlice* factors) {
  if (factors != nullptr && letter.bytes == factors->num_bytes()) return {};
  return error(
      Code::kMismatch,
      "[server] slice {}: got {} bytes of factors from rank {}, expected {}; do all ranks run one job?",
      letter.head.slice, letter.bytes, peer,
      factors == nullptr ? "values: it has no factors here" : fmt::format("{}", factors->num_bytes()));
}

std::int64_t count_rows(std::uint64_t bytes, std::uint64_t per_row) {
  return bytes == 0 ? 0 : static_cast<std::int64_t>(bytes / per_row);
}

}  // namespace

Status check_payload(int, const Letter<InitHead>& letter, const KeptSlice& slice) {
  return check_bytes(letter.head.slice, letter.bytes, slice.stored().num_bytes());
}

Status check_payload(int peer, const Letter<PushHead>& letter, const KeptSlice& slice) {
  if (letter.head.is_coded) return check_coded(peer, letter, slice.coder);
  if (letter.head.is_factors) return check_factors(peer, letter, slice.factors);
  return check_bytes(letter.head.slice, letter.bytes, slice.stored().num_bytes());
}

Status check_payload(int, const Letter<PullHead>& letter, const KeptSlice&) {
  return check_bytes(letter.head.slice, letter.bytes, 0);
}

Status check_payload(int, const Letter<PushRowsHead>& letter, const KeptSlice& slice) {
  return check_rows(letter.head.slice, letter.bytes, pushed_row(slice.stored()));
}

Status check_payload(int, const Letter<PullRowsHead>& letter, const KeptSlice& slice) {
  return check_rows(letter.head.slice, letter.bytes, pulled_row(slice.stored()));
}

std::int64_t num_rows(const Letter<PushRowsHead>& letter, const StoredSlice& slice) {
  return count_rows(letter.bytes, pushed_row(slice));
}

std::int64_t num_rows(const Letter<PullRowsHead>& letter, const StoredSlice& slice) {
  return count_rows(letter.bytes, pulled_row(slice));
}

bool are_rows_inside(const Loan& rows, std::int64_t count, const StoredSlice& slice) {
  if (count == 0 || rows->is_phantom()) return true;
  const auto* numbers = reinterpret_cast<const std::int64_t*>(rows->raw());
  return std::all_of(numbers, numbers + count,
                     [&](std::int64_t r) { return r >= 0 && r < slice.rows->count; });
}

}  // namespace trireme::server
