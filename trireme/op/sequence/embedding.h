// What embedding and its gradient share.
#pragma once

#include "trireme/op/detail/cut_graph.h"
#include "trireme/op/detail/dispatch.h"
#include "trireme/op/detail/infer.h"
#include "trireme/tensor/walk.h"

namespace trireme::op::detail {

// A table needs a row.
inline Status expect_rows(const TensorType& table) {
  if (table.shape[0] > 0) return ok_status();
  return error(Code::kInvalid, "table: got {}, expected at least 1 row", table.to_string());
}

// f(id, i) for the i-th id in row-major order.
template <typename F>
void for_each_id(const Tensor& ids, F f) {
  dispatch_index(ids.dtype(), [&]<typename I>() {
    const I* values = ids.data<I>();
    std::int64_t i = 0;
    walk_rows<1>(ids.shape(), {ids.strides()}, [&](const auto& offset, const auto& stride, std::int64_t n) {
      for (std::int64_t k = 0; k < n; ++k) f(std::int64_t{values[offset[0] + k * stride[0]]}, i++);
    });
  });
}

}  // namespace trireme::op::detail
