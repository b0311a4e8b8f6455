// Push: one worker's values for one slice, as they lie at the server until they are applied.
#pragma once

#include <optional>

#include "trireme/server/consistency/consistency.h"
#include "trireme/server/letters.h"
#include "trireme/server/tensor_pool.h"

namespace trireme::server {

// Somebody waits for values.
struct Question {
  int peer = 0;
  comm::Ticket<ServerAnswer> ticket;
  TimeNs since = 0;
};

struct Push {
  static constexpr std::int64_t kDense = -1;
  PushId id;
  Loan values;  // null: the worker has nothing for this slice
  // Rows: `values` begins with that many i64 numbers of rows.
  std::int64_t num_rows = kDense;
  std::uint64_t coded_bytes = 0;  // above 0: `values` is a coded message
  bool is_factors = false;        // `values` are factors, until they are multiplied
  float scale = 1, learning_rate = 0;
  std::int64_t based_on = -1;
  // Values before or after this update are to go there.
  std::optional<Question> asked_before, asked_after;

  bool is_dense() const { return num_rows == kDense; }
  const std::int64_t* rows() const { return reinterpret_cast<const std::int64_t*>(values->raw()); }
  const float* row_values() const { return values->data<float>() + 2 * num_rows; }
};

// What enters an update: factor * values.
struct Addend {
  const Push* push = nullptr;
  float factor = 1;
};

}  // namespace trireme::server
