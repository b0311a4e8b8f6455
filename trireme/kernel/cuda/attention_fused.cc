// attention and attention_grad through the fused engines of cuDNN: 16-bit floats, features in multiples of 8
// up to 128.
#include <algorithm>
#include <array>
#include <limits>

#include "trireme/kernel/cuda/attention_graph.h"
#include "trireme/kernel/cuda/rows.h"

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

bool takes(const CudaQuery& q) {
  const DType dtype = q.inputs[0].dtype;
  if ((dtype != DType::kBF16 && dtype != DType::kF16) || q.device.only_compiles()) return false;
  const AttentionSizes s(q.inputs[0], q.inputs[1], q.inputs[2], q.attrs);
  const auto fits = [](std::int64_t features) {
    return features > 0 && features <= 128 && features % 8 == 0;
  };
  return s.batch * s.heads > 0 && s.queries > 0 && s.keys > 0 && s.queries * s.keys > 1 && fits(s.depth) &&
         fits(s.width) && q.device.lib().cudnnGetVersion() >= kOldestVersion;
}

// Host numbers that the plans read when they are enqueued.
struct Numbers {
  float scale = 1, lowest = -std::numeric_limits<float>::infinity(), one = 1;
};
void* host(const float& number) { return const_cast<float*>(&number); }  // cuDNN only reads it

// Scratch of a backward pass in the workspace; a forward pass alone has only `rest`.
struct Scratch {
  std::byte *y = nullptr, *stats = nullptr, *sums = nullptr, *rest = nullptr;
};

struct Pass {
  Plan plan;
  AttentionTensors t;
  Numbers numbers;

  static Result<Pass> make(const CudaQuery& q, AttentionGraph graph, double scale) {
    TR_ASSIGN_OR_RETURN(const CudaDevice::Planning planning, q.device.planning_handle());
    TR_ASSIGN_OR_RETURN(auto plans, graph.graph.plans({.handle = planning.handle}, {}));
    return Pass{std::move(plans[0]), graph.tensors, {.scale = static_cast<float>(scale)}};
  }

  // The results of a backward pass are the op's outputs; y is one without it.
  Status enqueue(const CudaArgs& args, const Scratch& scratch) const {
    std::array<DnnBinding, 13> all{};
    std::size_t count = 0;
    const auto bind = [&](std::int64_t tensor, void* address) {
      if (tensor >= 0) all[count++] = {tensor, address};
    };
    bind(t.q, args.in(0).raw());
    bind(t.k, args.in(1).raw());
    bind(t.v, args.in(2).raw());
    bind(t.y, scratch.y != nullptr ? scratch.y : args.out(0).raw());
    if (t.dy >= 0) {
      bind(t.dy, args.in(3).raw());
      bind(t.dq, args.out(0).raw());
      bind(t.dk, args.out(1).raw());
      bind(t.dv, args.out(2).raw());
    }
    bind(t.stats, scratch.stats);
    bind(t.sums, scratch.sums);
    bind(t.scale, host(numbers.scale));
    bind(t.lowest, host(numbers.lowest));
    bind(t.one, host(numbers.one));
    return plan->enqueue(args.stream, std::span(all).first(count), scratch.rest);
  }
};

}  // namespace

bool attention_fuses(const CudaQuery& q) { return takes(q); }

bool attention_grad_fuses(const CudaQuery& q) {
  return takes(q) &&
         (q.inputs[1].shape[2] % 128 == 0 || q.device.lib().cudnnGetVersion() >= kVersionOfAnyKeys);
}

Made make_attention_fused(const CudaQuery& q) {
  const AttentionSizes s(q.inputs[0], q.inputs[1], q.inputs[2], q.attrs);
  const auto made = Pass::make(q, attention_forward(q.device.lib(), s, q.inputs[0].dtype, false), s.scale);
  if (!made.ok()) return make_attention(q);
  const auto enqueue = [pass = *made](const CudaArgs& args) {
    return pass.enqueue(args, {.rest = args.workspace});
  };
  return make_kernel(enqueue, made->plan->workspace_bytes());
}

// There are no saved results: y and the statistics of the rows are made again first.
Made make_attention_grad_fused(const CudaQuery& q) {
  const AttentionSizes s(q.inputs[0], q.inputs[1], q.inputs[2], q.attrs);
  const DType dtype = q.inputs[0].dtype;
  const auto forward = Pass::make(q, attention_forward(q.device.lib(), s, dtype, true), s.scale);
  if (!forward.ok()) return make_attention_grad(q);
  const auto backward = Pass::make(q, attention_backward(q.device.lib(), s, dtype), s.scale);
  if (!backward.ok()) return make_attention_grad(q);
  const std::int64_t rows = s.batch * s.heads * s.queries;
  const std::size_t y_bytes = whole_lines(rows * s.width, dtype), row_bytes = whole_lines(rows, DType::kF32);
  const auto enqueue = [f = *forward, b = *backward, y_bytes, row_bytes](const CudaArgs& args) -> Status {
    Scratch scratch{.y = args.workspace};
    scratch.stats = scratch.y + y_bytes;
    scratch.sums = scratch.stats + row_bytes;
    scratch.rest = scratch.sums + row_bytes;
    TR_RETURN_IF_ERROR(f.enqueue(args, scratch));
    return b.enqueue(args, scratch);
  };
  return make_kernel(enqueue,
                     y_bytes + 2 * row_bytes +
                         std::max(forward->plan->workspace_bytes(), backward->plan->workspace_bytes()));
}

}  // namespace trireme::kernel::cuda
