// What dropout and dropout_part share: element k of a sample is kept when the uniform value (word >> 8) 2^-24
// of its place among the elements of a whole sample is at least `rate`. random.h says which word a place
// uses.
#pragma once

#include "trireme/op/random/random.h"
#include "trireme/tensor/walk.h"

namespace trireme::op::detail {

std::vector<AttrSpec> dropout_attrs();  // rate, stream
// x [N,...], key, step, sample_ids [N].
Status expect_dropout(TypeSpan in, const Attrs& attrs);

// Where a part of a sample lies in the whole one, for dropout_part: in runs of elements one after the other.
struct DropoutRuns {
  std::int64_t size;          // elements of a run
  std::uint64_t step, first;  // places between the first elements of runs, and of the first run

  explicit DropoutRuns(const KernelArgs& a);
  // The place of element k of the part among the elements of a whole sample.
  std::uint64_t place(std::int64_t k) const {
    return first + static_cast<std::uint64_t>(k / size) * step + static_cast<std::uint64_t>(k % size);
  }
};

// y = x / (1 - rate) where kept, else 0. place(k) is that of element k of a sample, in row-major order.
template <typename Place>
void drop(const KernelArgs& a, Place place) {
  const Tensor &x = a.in(0), &ids = a.in(3), &y = a.out(0);
  const double rate = a.attrs.get_float("rate");
  const auto threshold = static_cast<float>(rate);
  const std::uint64_t key = stream_key(a, 1);
  dispatch_float(x.dtype(), [&]<typename T>() {
    const Acc<T> keep = static_cast<Acc<T>>(1 - rate);
    for (std::int64_t s = 0; s < x.shape()[0]; ++s) {
      const Tensor from = x.slice(0, s, s + 1);
      T* out = y.data<T>() + s * y.strides()[0];
      const auto id = static_cast<std::uint64_t>(ids.data<std::int64_t>()[s * ids.strides()[0]]);
      std::int64_t k = 0;
      std::uint64_t block = 0;
      Words words{};
      walk_rows<1>(from.shape(), {from.strides()},
                   [&](const auto& offset, const auto& stride, std::int64_t n) {
                     for (std::int64_t i = 0; i < n; ++i, ++k) {
                       const std::uint64_t j = place(k);
                       if (k == 0 || j / 4 != block) words = sample_block(key, id, block = j / 4);
                       const Acc<T> v = from.data<T>()[offset[0] + i * stride[0]];
                       out[k] = to_uniform(words[j % 4]) >= threshold ? static_cast<T>(v / keep) : T(0);
                     }
                   });
    }
  });
}

}  // namespace trireme::op::detail
