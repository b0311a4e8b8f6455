// Rows for 16-bit floats out of rows for f32: operands are widened into the workspace, the f32 row runs
// there, results are rounded once. For ops that compute far more than they move.
#pragma once

#include <array>

#include "trireme/kernel/cpu/simd/loops.h"
#include "trireme/kernel/cpu/slices.h"
#include "trireme/op/op.h"

namespace trireme::kernel {

inline bool is_half(DType d) { return d == DType::kBF16 || d == DType::kF16; }

// The same query with f32 instead of 16-bit floats.
class WideQuery {
 public:
  explicit WideQuery(const op::KernelQuery& q) : q_(q) {
    for (const TensorType& t : q.inputs) inputs_.push_back(widened(t));
    for (const TensorType& t : q.outputs) outputs_.push_back(widened(t));
  }
  op::KernelQuery query() const { return {q_.def, inputs_, outputs_, q_.attrs, q_.width}; }
  bool differs() const {
    return !std::equal(inputs_.begin(), inputs_.end(), q_.inputs.begin()) ||
           !std::equal(outputs_.begin(), outputs_.end(), q_.outputs.begin());
  }
  static TensorType widened(TensorType t) {
    if (is_half(t.dtype)) t.dtype = DType::kF32;
    return t;
  }
  // The bytes of a widened operand in the workspace: whole cache lines.
  static std::size_t bytes_of(const TensorType& t) {
    return is_half(t.dtype) ? (static_cast<std::size_t>(t.shape.num_elems()) * 4 + 63) / 64 * 64 : 0;
  }
  std::size_t operand_bytes() const {
    std::size_t bytes = 0;
    for (const TensorType& t : q_.inputs) bytes += bytes_of(t);
    for (const TensorType& t : q_.outputs) bytes += bytes_of(t);
    return bytes;
  }

 private:
  const op::KernelQuery& q_;
  std::vector<TensorType> inputs_, outputs_;
};

template <const op::KernelRow& kF32>
struct Wide {
  static bool applicable(const op::KernelQuery& q) {
    const WideQuery wide(q);
    return wide.differs() && kF32.applicable(wide.query());
  }
  static std::size_t workspace_bytes(const op::KernelQuery& q) {
    const WideQuery wide(q);
    return wide.operand_bytes() + kF32.workspace_bytes(wide.query());
  }
  static std::unique_ptr<op::KernelState> prepare(const op::KernelQuery& q) {
    const WideQuery wide(q);
    return kF32.prepare(wide.query());
  }
  static void run(op::KernelArgs& args) {
    constexpr std::size_t kMost = 8;  // operands of either kind
    TR_CHECK(args.inputs.size() <= kMost && args.outputs.size() <= kMost);
    std::array<Tensor, kMost> in, out;
    std::byte* free = args.workspace.data();
    const VectorLoops& loops = vector_loops();
    const auto place = [&](const Tensor& t) {
      if (!is_half(t.dtype())) return t;
      const std::size_t bytes = WideQuery::bytes_of(t.type());
      const Tensor wide(Buffer::wrap(cpu_device(), free, bytes), WideQuery::widened(t.type()));
      free += bytes;
      return wide;
    };
    for (std::size_t i = 0; i < args.inputs.size(); ++i) {
      const Tensor& t = args.inputs[i];
      in[i] = place(t);
      if (!is_half(t.dtype())) continue;
      TR_CHECK(t.is_contiguous());
      const auto widen = t.dtype() == DType::kBF16 ? loops.bf16_to_f32 : loops.f16_to_f32;
      for_elems(args.parallel, t.shape().num_elems(), [&](std::int64_t begin, std::int64_t end) {
        widen(reinterpret_cast<const std::uint16_t*>(t.raw()) + begin, in[i].template data<float>() + begin,
              end - begin);
      });
    }
    for (std::size_t i = 0; i < args.outputs.size(); ++i) out[i] = place(args.outputs[i]);
    const auto used = static_cast<std::size_t>(free - args.workspace.data());
    op::KernelArgs inner{.inputs = std::span(in).first(args.inputs.size()),
                         .outputs = std::span(out).first(args.outputs.size()),
                         .attrs = args.attrs,
                         .workspace = args.workspace.subspan(used),
                         .parallel = args.parallel,
                         .state = args.state};
    kF32.run(inner);
    for (std::size_t i = 0; i < args.outputs.size(); ++i) {
      const Tensor& t = args.outputs[i];
      if (!is_half(t.dtype())) continue;
      const auto narrow = t.dtype() == DType::kBF16 ? loops.f32_to_bf16 : loops.f32_to_f16;
      for_elems(args.parallel, t.shape().num_elems(), [&](std::int64_t begin, std::int64_t end) {
        narrow(out[i].template data<float>() + begin, reinterpret_cast<std::uint16_t*>(t.raw()) + begin,
               end - begin);
      });
    }
  }
  static constexpr op::KernelRow row(const char* op) {
    return {.op = op,
            .name = "wide",
            .run = run,
            .applicable = applicable,
            .workspace_bytes = workspace_bytes,
            .prepare = prepare};
  }
};

}  // namespace trireme::kernel
