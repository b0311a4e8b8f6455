// From a graph of cuDNN operations to plans: heuristics, choice of engines, execution.
#include <algorithm>
#include <array>

#include "trireme/kernel/cuda/conv/dnn.h"

namespace trireme::kernel::cuda {
namespace {

// Configurations of engines that the heuristics of one mode suggest, best first. None: the mode has no
// answer.
std::vector<DnnDescriptor> suggested(const Libraries& lib, const DnnDescriptor& graph,
                                     const DnnTarget& target, cudnnBackendHeurMode_t mode) {
  std::vector<DnnDescriptor> found;
  DnnDescriptor heuristics(lib, CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
  heuristics.set_descriptor(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph);
  heuristics.set_one(CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, mode);
  if (target.properties != nullptr)
    heuristics.set_descriptor(CUDNN_ATTR_ENGINEHEUR_DEVICEPROP, *target.properties);
  heuristics.finalize();
  std::int64_t count = 0;
  heuristics.get(CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR, 0, &count, nullptr);
  if (!heuristics.status().ok() || count == 0) return found;
  std::vector<cudnnBackendDescriptor_t> raw;
  for (std::int64_t i = 0; i < count; ++i)
    raw.push_back(found.emplace_back(lib, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR).raw());
  heuristics.get(CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR, count, &count, raw.data());
  if (!heuristics.status().ok()) found.clear();
  while (static_cast<std::int64_t>(found.size()) > count) found.pop_back();
  return found;
}

bool has(std::span<const cudnnBackendNumericalNote_t> notes, cudnnBackendNumericalNote_t note) {
  return std::find(notes.begin(), notes.end(), note) != notes.end();
}

bool is_precise(const Libraries& lib, DnnDescriptor& config, const DnnOptions& options) {
  DnnDescriptor engine(lib, CUDNN_BACKEND_ENGINE_DESCRIPTOR);
  cudnnBackendDescriptor_t raw = engine.raw();
  std::int64_t count = 0;
  config.get(CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &count, static_cast<void*>(&raw));
  std::array<cudnnBackendNumericalNote_t, CUDNN_NUMERICAL_NOTE_TYPE_COUNT> all{};
  engine.get(CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, CUDNN_TYPE_NUMERICAL_NOTE, CUDNN_NUMERICAL_NOTE_TYPE_COUNT,
             &count, all.data());
  if (!config.status().ok() || !engine.status().ok()) return false;
  const auto notes =
      std::span(all).first(static_cast<std::size_t>(std::min<std::int64_t>(count, std::ssize(all))));
  if (has(notes, CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC) ||
      has(notes, CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION) || has(notes, CUDNN_NUMERICAL_NOTE_FFT))
    return false;
  return !options.full_f32 || !(has(notes, CUDNN_NUMERICAL_NOTE_TENSOR_CORE) ||
                                has(notes, CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS));
}

}  // namespace

Result<std::vector<std::shared_ptr<const DnnPlan>>> DnnGraph::plans(const DnnTarget& target,
                                                                    const DnnOptions& options) {
  TR_RETURN_IF_ERROR(first_failure());
  DnnDescriptor graph(lib_, CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
  graph.set(CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR, std::ssize(operations_),
            operations_.data());
  if (target.handle != nullptr)
    graph.set_one(CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, target.handle);
  graph.finalize();
  TR_RETURN_IF_ERROR(graph.status());
  std::vector<std::shared_ptr<const DnnPlan>> made;
  int refused = 0;
  int number = -1;
  for (const auto mode : {CUDNN_HEUR_MODE_A, CUDNN_HEUR_MODE_FALLBACK}) {
    if (!made.empty()) break;
    for (DnnDescriptor& config : suggested(lib_, graph, target, mode)) {
      ++number;
      if (options.algorithm > 0 && number != options.algorithm) continue;
      if (!is_precise(lib_, config, options)) {
        ++refused;
        continue;
      }
      DnnDescriptor plan(lib_, CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
      plan.set_descriptor(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, config);
      if (target.handle != nullptr)
        plan.set_one(CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, target.handle);
      if (target.properties != nullptr)
        plan.set_descriptor(CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP, *target.properties);
      plan.finalize();
      std::int64_t bytes = 0, count = 0;
      plan.get(CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, CUDNN_TYPE_INT64, 1, &count, &bytes);
      if (!plan.status().ok() || static_cast<std::size_t>(bytes) > options.most_workspace_bytes) {
        ++refused;
        continue;
      }
      made.push_back(std::make_shared<DnnPlan>(lib_, std::move(plan), static_cast<std::size_t>(bytes)));
      if (static_cast<int>(made.size()) == options.most) return made;
    }
  }
  if (options.algorithm > number)
    return error(Code::kNotFound, "[cuda] cuDNN names {} algorithms for {} operations, expected more than {}",
                 number + 1, operations_.size(), options.algorithm);
  if (made.empty())
    return error(
        Code::kUnavailable,
        "[cuda] cuDNN has no engine for {} operations that repeats to the bit in the precision asked for; {} "
        "were turned down",
        operations_.size(), refused);
  return made;
}

DnnPlan::DnnPlan(const Libraries& lib, DnnDescriptor plan, std::size_t workspace_bytes)
    : lib_(&lib), plan_(std::move(plan)), workspace_bytes_(workspace_bytes) {}

Status DnnPlan::enqueue(CudaStream& stream, std::span<const DnnBinding> tensors, std::byte* workspace) const {
  TR_ASSIGN_OR_RETURN(const cudnnHandle_t handle, stream.cudnn());
  std::array<std::int64_t, 32> ids{};
  std::array<void*, 32> addresses{};
  TR_CHECK(tensors.size() <= ids.size());
  for (std::size_t i = 0; i < tensors.size(); ++i)
    ids[i] = tensors[i].tensor, addresses[i] = tensors[i].address;
  DnnDescriptor pack(*lib_, CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
  const auto count = static_cast<std::int64_t>(tensors.size());
  pack.set(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, count, addresses.data());
  pack.set(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, count, ids.data());
  void* scratch = workspace;
  pack.set_one(CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, scratch);
  pack.finalize();
  TR_RETURN_IF_ERROR(pack.status());
  return lib_->check(lib_->cudnnBackendExecute(handle, plan_.raw(), pack.raw()), "running a cuDNN plan");
}

}  // namespace trireme::kernel::cuda
