// cast_all: blocks of some thousand elements each, of up to 64 tensors per launch.
#include <fmt/format.h>

#include "trireme/kernel/cuda/device/device.h"
#include "trireme/kernel/cuda/expressions.h"
#include "trireme/kernel/cuda/rows.h"

namespace trireme::kernel::cuda {

extern const char kCastAllText[];  // cast_all.cu

namespace {

constexpr int kMostTensors = 64, kThreads = 256;
constexpr std::int64_t kEach = 8192;  // elements of a block

struct Many {  // as in the text
  void *from[kMostTensors] = {}, *to[kMostTensors] = {};
  std::int64_t n[kMostTensors] = {};
  unsigned first[kMostTensors + 1] = {};
};

}  // namespace

Made make_cast_all(const CudaQuery& q) {
  const DType from = q.inputs[0].dtype, to = q.attrs.get_dtype("dtype");
  std::vector<std::int64_t> sizes;
  for (const TensorType& t : q.inputs) {
    if (t.dtype != from)
      return error(Code::kNotFound, "[kernel] op cast_all has no CUDA kernel for {} beside {}",
                   dtype_name(from), dtype_name(t.dtype));
    sizes.push_back(t.shape.num_elems());
  }
  const Scalar x = scalar_of(from), y = scalar_of(to);
  const std::string text = fmt::format(
      "typedef {} T;\ntypedef {} Y;\nconstexpr int EACH = {};\n{}"
      "inline {} cast({} a) {{\n  typedef {} A;\n  typedef {} R;\n  {}\n}}\n"
      "inline Y one(T v) {{ return {}; }}\n{}",
      x.memory, y.memory, kEach, kExpressionText, y.compute, x.compute, x.compute, y.compute,
      cast_expression(from, to), y.store("cast(" + x.load("v") + ")"), kCastAllText);
  TR_ASSIGN_OR_RETURN(const Function* f, q.device.function(text, "cast_all"));
  return make_kernel([f, sizes](const CudaArgs& a) -> Status {
    Many many;
    int count = 0;
    const auto send = [&]() -> Status {
      const unsigned blocks = many.first[count];
      for (int i = count; i < kMostTensors; ++i) many.first[i + 1] = blocks;
      count = 0;
      return blocks == 0 ? ok_status() : launch(a.stream, *f, {blocks}, {kThreads}, 0, many);
    };
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      many.from[count] = a.inputs[i].raw();
      many.to[count] = a.outputs[i].raw();
      many.n[count] = sizes[i];
      many.first[count + 1] = many.first[count] + static_cast<unsigned>((sizes[i] + kEach - 1) / kEach);
      if (++count == kMostTensors) TR_RETURN_IF_ERROR(send());
    }
    return send();
  });
}

}  // namespace trireme::kernel::cuda
