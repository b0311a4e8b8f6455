// Memory of a GPU: what it cannot hold is refused before the run; what was predicted beside what it came to.
#include "trireme/base/units.h"
#include "trireme/kernel/cuda/memory_info.h"
#include "trireme/train/memory_estimate.h"
#include "trireme/train/prepare.h"

namespace trireme::train {
namespace {

std::string text_of(std::int64_t bytes) { return format_bytes(static_cast<std::uint64_t>(bytes)); }

std::string parts_text(const MemoryEstimate& estimate) {
  std::string text;
  for (const MemoryPart& p : estimate.parts)
    if (p.bytes > 0) text += fmt::format("{}{} {}", text.empty() ? "" : ", ", p.name, text_of(p.bytes));
  return text;
}

// "'conv1' f32[64,64,112,112] with 196 MiB"
std::string largest_tensor(const graph::Graph& graph) {
  std::size_t most = 0;
  std::string text = "none";
  for (std::int32_t i = 0; i < graph.size(); ++i)
    for (const TensorType& type : graph.node(i).outputs) {
      if (type.num_bytes() <= most) continue;
      most = type.num_bytes();
      text = fmt::format("'{}' {} with {}", graph.node(i).name, type.to_string(), format_bytes(most));
    }
  return text;
}

}  // namespace

Status check_gpu_memory(const Job& job, const Prepared& prepared) {
  const kernel::cuda::CudaDevice* const gpu = kernel::cuda::as_cuda(prepared.device.get());
  if (gpu == nullptr) return {};
  TR_ASSIGN_OR_RETURN(const MemoryEstimate needed, estimate_prepared(job, prepared, 1));
  const kernel::cuda::MemoryInfo there = kernel::cuda::memory_info(*gpu);
  const std::int64_t bytes = needed.total_bytes();
  if (bytes <= static_cast<std::int64_t>(there.free_bytes)) return {};
  return error(
      Code::kExhausted,
      "[train] the job needs {} of GPU memory ({}), and {} of {} are free; the largest tensor is {}; use a "
      "smaller train.batch (got {}) or train.precision = \"bf16\"",
      text_of(bytes), parts_text(needed), format_bytes(there.free_bytes), format_bytes(there.total_bytes),
      largest_tensor(prepared.train->graph()), job.train.batch);
}

std::optional<Json> gpu_memory(const Job& job, const Prepared& prepared) {
  const kernel::cuda::CudaDevice* const gpu = kernel::cuda::as_cuda(prepared.device.get());
  const Result<MemoryEstimate> estimate = estimate_prepared(job, prepared, 1);
  if (gpu == nullptr || !estimate.ok()) return std::nullopt;
  return Json{{"predicted_bytes", estimate->total_bytes()},
              {"measured_bytes", kernel::cuda::peak_bytes(*gpu)}};
}

}  // namespace trireme::train
