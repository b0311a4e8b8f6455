#include "trireme/op/array/array.h"

namespace trireme::op::detail {

void copy_elements(DType dtype, const Shape& shape, const std::byte* from, const Strides& from_strides,
                   std::byte* to, const Strides& to_strides) {
  dispatch_bits(dtype, [&]<typename Word>() {
    const auto* source = reinterpret_cast<const Word*>(from);
    auto* target = reinterpret_cast<Word*>(to);
    walk_rows<2>(shape, {from_strides, to_strides},
                 [&](const auto& offset, const auto& stride, std::int64_t n) {
                   const Word* p = source + offset[0];
                   Word* q = target + offset[1];
                   if (stride[0] == 1 && stride[1] == 1) {
                     for (std::int64_t i = 0; i < n; ++i) q[i] = p[i];
                   } else {
                     for (std::int64_t i = 0; i < n; ++i) q[i * stride[1]] = p[i * stride[0]];
                   }
                 });
  });
}

}  // namespace trireme::op::detail
