#include "trireme/kernel/cuda/norm/norm.h"

#include <fmt/format.h>

#include <algorithm>

namespace trireme::kernel::cuda {

extern const char kNormElementText[];  // norm.cu

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
                     {"H", out(2)},
                     {"O", in(q.inputs.size() > 5 ? 5 : 0)},
                     {"C", out(q.outputs.size() > 3 ? 3 : 0)},
                     {"K", out(q.outputs.size() > 4 ? 4 : 0)}},
                    constants, parts);
}

BatchNormParts batch_norm_parts(const CudaQuery& q) {
  const auto n = static_cast<int>(q.inputs.size());
  if (q.def.name == "batch_norm_relu") return {.bias = 2, .residual = n == 4 ? 3 : -1, .relu = true};
  if (q.def.name == "batch_norm_relu_grad") return {.bias = 2, .mean = 3, .var = 4, .dy = 5, .relu = true};
  if (q.def.name == "batch_norm_add_relu_grad")
    return {.mean = 2, .var = 3, .y = 4, .dy = 5, .second = n == 7 ? 6 : -1, .relu = true};
  if (q.def.name == "batch_norm_grad") return {.mean = 2, .var = 3, .dy = 4};
  if (q.def.name == "batch_norm_inference") return {.bias = 2, .mean = 3, .var = 4};
  return {.bias = 2};
}

namespace {}  // namespace

std::string batch_norm_text(const CudaQuery& q, std::initializer_list<Constant> constants,
                            std::initializer_list<std::string_view> parts) {
  const BatchNormParts p = batch_norm_parts(q);
  const bool is_grad = p.dy >= 0;
  const auto in = [&](int i) { return q.inputs[i < 0 ? 0 : static_cast<std::size_t>(i)].dtype; };
  const auto out = [&](std::size_t i) { return q.outputs[i < q.outputs.size() ? i : 0].dtype; };
  std::string body = typed_text({{"In", in(0)},
                                 {"S", in(1)},
                                 {"B", in(p.bias)},
                                 {"M", p.mean < 0 ? out(1) : in(p.mean)},
                                 {"V", p.var < 0 ? out(2) : in(p.var)},
                                 {"R", in(p.residual)},
                                 {"K", in(p.y)},
                                 {"D", in(p.dy)},
                                 {"E", in(p.second)},
                                 {"Y", out(0)},
                                 {"X", out(0)},
                                 {"G", is_grad ? out(1) : out(0)},
                                 {"H", is_grad ? out(2) : out(0)},
                                 {"Z", out(3)}},
                                {{"kRelu", p.relu ? 1 : 0},
                                 {"kResidual", p.residual >= 0 ? 1 : 0},
                                 {"kFromY", p.y >= 0 ? 1 : 0},
                                 {"kTwo", p.second >= 0 ? 1 : 0}},
                                {});
  for (const Constant& c : constants) body += fmt::format("constexpr int {} = {};\n", c.name, c.value);
  body += kPackText;
  body += kNormElementText;
  for (const std::string_view part : parts) body += part;
  return body;
}

}  // namespace trireme::kernel::cuda
