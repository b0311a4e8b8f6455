// attention, attention_qkv and their gradients through the fused engines of cuDNN: 16-bit floats, features in
// multiples of 8 up to 128.
#include <algorithm>
#include <array>
#include <limits>

#include "trireme/kernel/cuda/attention/attention_graph.h"
#include "trireme/kernel/cuda/rows.h"
#include "trireme/op/sequence/attention_qkv.h"

namespace trireme::kernel::cuda {
namespace {

using op::detail::AttentionSizes;
using Plan = std::shared_ptr<const DnnPlan>;

constexpr std::size_t kOldestVersion =
    91002;  // before, -inf in masks and the backward pass have known defects
constexpr std::size_t kVersionOfAnyKeys = 91501;  // before, the backward pass needs keys in multiples of 128

std::size_t whole_lines(std::int64_t elems, DType dtype) {
  return (static_cast<std::size_t>(elems) * dtype_size(dtype) + 255) / 256 * 256;
}

bool takes(const CudaQuery& q, const AttentionSizes& s) {
  const DType dtype = q.inputs[0].dtype;
  if ((dtype != DType::kBF16 && dtype != DType::kF16) || q.device.only_compiles()) return false;
  const auto fits = [](std::int64_t features) {
    return features > 0 && features <= 128 && features % 8 == 0;
  };
  return s.batch * s.heads > 0 && s.queries > 0 && s.keys > 0 && s.queries * s.keys > 1 && fits(s.depth) &&
         fits(s.width) && q.device.lib().cudnnGetVersion() >= kOldestVersion;
}
bool takes_grad(const CudaQuery& q, const AttentionSizes& s) {
  return takes(q, s) && (s.keys % 128 == 0 || q.device.lib().cudnnGetVersion() >= kVersionOfAnyKeys);
}

AttentionSizes sizes_of(const CudaQuery& q) { return {q.inputs[0], q.inputs[1], q.inputs[2], q.attrs}; }
AttentionSizes packed_sizes_of(const CudaQuery& q) { return op::detail::packed_sizes(q.inputs[0], q.attrs); }

// Host numbers that the plans read when they are enqueued.
struct Numbers {
  float scale = 1, lowest = -std::numeric_limits<float>::infinity(), one = 1;
};
void* host(const float& number) { return const_cast<float*>(&number); }  // cuDNN only reads it

// Device memory of the operands, by the names of AttentionTensors. Null: the graph has no such tensor.
struct Operands {
  std::byte *q, *k, *v, *y;
  std::byte *dy = nullptr, *dq = nullptr, *dk = nullptr, *dv = nullptr;
  std::byte *stats = nullptr, *sums = nullptr;
};

struct Pass {
  Plan plan;
  AttentionTensors t;
  Numbers numbers;

  static Result<Pass> make(const CudaQuery& q, AttentionGraph graph, double scale) {
    TR_ASSIGN_OR_RETURN(const CudaDevice::Planning planning, q.device.planning_handle());
    TR_ASSIGN_OR_RETURN(auto plans,
                        graph.graph.plans({.handle = planning.handle}, {.algorithm = q.algorithm}));
    return Pass{std::move(plans[0]), graph.tensors, {.scale = static_cast<float>(scale)}};
  }

  Status enqueue(CudaStream& stream, const Operands& o, std::byte* workspace) const {
    const std::array<DnnBinding, 13> known{{{t.q, o.q},
                                            {t.k, o.k},
                                            {t.v, o.v},
                                            {t.y, o.y},
                                            {t.dy, o.dy},
                                            {t.dq, o.dq},
                                            {t.dk, o.dk},
                                            {t.dv, o.dv},
                                            {t.stats, o.stats},
                                            {t.sums, o.sums},
                                            {t.scale, host(numbers.scale)},
                                            {t.lowest, host(numbers.lowest)},
                                            {t.one, host(numbers.one)}}};
    std::array<DnnBinding, 13> used{};
    const auto end = std::copy_if(known.begin(), known.end(), used.begin(),
                                  [](const DnnBinding& b) { return b.tensor >= 0; });
    return plan->enqueue(stream, std::span(used.begin(), end), workspace);
  }
};

// What cuDNN does not take, unless it was one of its algorithms that was asked for.
Made instead(const CudaQuery& q, const Status& why, Made (*make)(const CudaQuery&)) {
  return q.algorithm > 0 ? Made(why) : make(q);
}

}  // namespace

bool attention_fuses(const CudaQuery& q) { return takes(q, sizes_of(q)); }
bool attention_grad_fuses(const CudaQuery& q) { return takes_grad(q, sizes_of(q)); }
bool attention_qkv_fuses(const CudaQuery& q) { return takes(q, packed_sizes_of(q)); }
bool attention_qkv_grad_fuses(const CudaQuery& q) { return takes_grad(q, packed_sizes_of(q)); }

Made make_attention_fused(const CudaQuery& q) {
  const AttentionSizes s = sizes_of(q);
  const auto made = Pass::make(
      q, attention_forward(q.device.lib(), s, q.inputs[0].dtype, AttentionLayout::apart, false), s.scale);
  if (!made.ok()) return instead(q, made.status(), make_attention);
  const auto enqueue = [pass = *made](const CudaArgs& args) {
    return pass.enqueue(
        args.stream,
        {.q = args.in(0).raw(), .k = args.in(1).raw(), .v = args.in(2).raw(), .y = args.out(0).raw()},
        args.workspace);
  };
  return make_kernel(enqueue, made->plan->workspace_bytes());
}

// There are no saved results: y and the statistics of the rows are made again first.
Made make_attention_grad_fused(const CudaQuery& q) {
  const AttentionSizes s = sizes_of(q);
  const DType dtype = q.inputs[0].dtype;
  constexpr auto kApart = AttentionLayout::apart;
  CudaQuery first = q;  // an algorithm is one of the backward pass
  first.algorithm = 0;
  const auto forward = Pass::make(first, attention_forward(q.device.lib(), s, dtype, kApart, true), s.scale);
  if (!forward.ok()) return make_attention_grad(q);
  const auto backward = Pass::make(q, attention_backward(q.device.lib(), s, dtype, kApart), s.scale);
  if (!backward.ok()) return instead(q, backward.status(), make_attention_grad);
  const std::int64_t rows = s.batch * s.heads * s.queries;
  const std::size_t y_bytes = whole_lines(rows * s.width, dtype), row_bytes = whole_lines(rows, DType::kF32);
  const auto enqueue = [f = *forward, b = *backward, y_bytes, row_bytes](const CudaArgs& args) -> Status {
    Operands o{.q = args.in(0).raw(), .k = args.in(1).raw(), .v = args.in(2).raw(), .y = args.workspace};
    o.stats = o.y + y_bytes;
    o.sums = o.stats + row_bytes;
    std::byte* const rest = o.sums + row_bytes;
    TR_RETURN_IF_ERROR(f.enqueue(args.stream, o, rest));
    o.dy = args.in(3).raw();
    o.dq = args.out(0).raw(), o.dk = args.out(1).raw(), o.dv = args.out(2).raw();
    return b.enqueue(args.stream, o, rest);
  };
  return make_kernel(enqueue,
                     y_bytes + 2 * row_bytes +
                         std::max(forward->plan->workspace_bytes(), backward->plan->workspace_bytes()));
}

// ---- Packed

namespace {
// Bytes from q to k, and from k to v, in a row.
std::size_t part_bytes(const AttentionSizes& s, DType dtype) {
  return static_cast<std::size_t>(s.heads * s.depth) * dtype_size(dtype);
}
}  // namespace

Made make_attention_qkv_fused(const CudaQuery& q) {
  const AttentionSizes s = packed_sizes_of(q);
  const DType dtype = q.inputs[0].dtype;
  const auto made =
      Pass::make(q, attention_forward(q.device.lib(), s, dtype, AttentionLayout::packed, true), s.scale);
  if (!made.ok()) return instead(q, made.status(), make_attention_qkv);
  const auto enqueue = [pass = *made, part = part_bytes(s, dtype)](const CudaArgs& args) {
    std::byte* const x = args.in(0).raw();
    Operands o{.q = x, .k = x + part, .v = x + 2 * part, .y = args.out(0).raw()};
    o.stats = args.out(1).raw();
    return pass.enqueue(args.stream, o, args.workspace);
  };
  return make_kernel(enqueue, made->plan->workspace_bytes());
}

Made make_attention_qkv_grad_fused(const CudaQuery& q) {
  const AttentionSizes s = packed_sizes_of(q);
  const DType dtype = q.inputs[0].dtype;
  const auto made =
      Pass::make(q, attention_backward(q.device.lib(), s, dtype, AttentionLayout::packed), s.scale);
  if (!made.ok()) return instead(q, made.status(), make_attention_qkv_grad);
  const std::size_t row_bytes = whole_lines(s.batch * s.heads * s.queries, DType::kF32);
  const auto enqueue = [pass = *made, part = part_bytes(s, dtype), row_bytes](const CudaArgs& args) {
    std::byte *const x = args.in(0).raw(), *const dx = args.out(0).raw();
    Operands o{.q = x, .k = x + part, .v = x + 2 * part, .y = args.in(1).raw()};
    o.stats = args.in(2).raw(), o.dy = args.in(3).raw();
    o.dq = dx, o.dk = dx + part, o.dv = dx + 2 * part;
    o.sums = args.workspace;
    return pass.enqueue(args.stream, o, args.workspace + row_bytes);
  };
  return make_kernel(enqueue, row_bytes + made->plan->workspace_bytes());
}

}  // namespace trireme::kernel::cuda
