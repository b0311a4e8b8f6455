#include "trireme/kernel/cuda/norm.h"

#include <algorithm>

namespace trireme::kernel::cuda {

std::size_t widest_bytes(const CudaQuery& q) {
  std::size_t bytes = 1;
  for (const auto list : {q.inputs, q.outputs})
    for (const TensorType& t : list)
      if (t.shape == q.inputs[0].shape) bytes = std::max(bytes, dtype_size(t.dtype));
  return bytes;
}

std::string norm_text(const CudaQuery& q, std::initializer_list<Constant> constants,
                      std::initializer_list<std::string_view> parts) {
  const auto in = [&](std::size_t i) { return q.inputs[i].dtype; };
  const auto out = [&](std::size_t i) { return q.outputs[i].dtype; };
  if (q.inputs.size() == 3)
    return typed_text(
        {{"In", in(0)}, {"S", in(1)}, {"B", in(2)}, {"Y", out(0)}, {"M", out(1)}, {"V", out(2)}}, constants,
        parts);
  if (q.outputs.size() == 1)
    return typed_text({{"In", in(0)}, {"S", in(1)}, {"B", in(2)}, {"M", in(3)}, {"V", in(4)}, {"Y", out(0)}},
                      constants, parts);
  return typed_text({{"In", in(0)},
                     {"S", in(1)},
                     {"M", in(2)},
                     {"V", in(3)},
                     {"D", in(4)},
                     {"X", out(0)},
                     {"G", out(1)},
                     {"H", out(2)}},
                    constants, parts);
}

}  // namespace trireme::kernel::cuda
