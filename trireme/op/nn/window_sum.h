// Windows along one dimension, shared by window_sum and local_response_norm.
#pragma once

#include "trireme/op/nn/cut_windows.h"
#include "trireme/op/nn/softmax.h"

namespace trireme::op::detail {

// The window of element i: [i - before, i + after] cut to [0, size).
struct Span {
  std::int64_t begin, end;
};
inline Span span_at(std::int64_t i, std::int64_t size, std::int64_t before, std::int64_t after) {
  return {i < before ? 0 : i - before, size - i <= after ? size : i + after + 1};
}
// Elements of all windows of a row.
double window_taps(std::int64_t size, std::int64_t before, std::int64_t after);

}  // namespace trireme::op::detail
