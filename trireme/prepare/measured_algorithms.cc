#include "trireme/prepare/measured_algorithms.h"

#include <fmt/format.h>

#include <algorithm>

#include "trireme/kernel/cuda/cuda.h"
#include "trireme/lower/kernel_cache.h"
#include "trireme/op/forms.h"
#include "trireme/op/node_text.h"

namespace trireme::prepare {
namespace {

using runtime::Task;

constexpr double kLeastFlops = 2e8;  // below: microseconds, whatever algorithm
constexpr int kMostAlgorithms = 8;
constexpr TimeNs kBudget = 20 * kSecond;

// Equal nodes of the graph.
struct Contest {
  const graph::Node* node = nullptr;  // the first of them
  std::vector<TensorType> inputs;
  double flops = 0;  // of all of them
  std::string key;   // in the cache
  std::vector<std::string> names = {};
};

std::vector<Contest> contests_of(const Prepared& prepared, const std::string& library) {
  const graph::Graph& g = prepared.train->graph();
  std::map<std::string, Contest> by_key;
  for (std::int32_t id = 0; id < g.size(); ++id) {
    const graph::Node& node = g.node(id);
    if (!kernel::cuda::has_algorithms(*node.def)) continue;
    const double flops = graph::node_cost(g, id).flops;
    if (flops < kLeastFlops || dtype_size(g.type(node.inputs[0]).dtype) != 2) continue;
    Contest c{&node, {}, 0, {}};
    for (const op::Value v : node.inputs) c.inputs.push_back(g.type(v));
    c.key = fmt::format("{}|{}{}", library, op::formed_name(*node.def, node.forms),
                        op::node_text(node.attrs, c.inputs));
    const std::string key = c.key;
    Contest& all = by_key.try_emplace(key, std::move(c)).first->second;
    all.flops += flops;
    all.names.push_back(node.name);
  }
  std::vector<Contest> contests;
  for (auto& [key, c] : by_key) contests.push_back(std::move(c));
  std::stable_sort(contests.begin(), contests.end(),
                   [](const Contest& a, const Contest& b) { return a.flops > b.flops; });
  return contests;
}

// What measuring came to.
struct Sums {
  int measured = 0, changed = 0;
  double seconds = 0, first_seconds = 0;  // of a step's calls of what was measured
};

Result<std::string> fastest(const Contest& c, kernel::cuda::CudaDevice& gpu, Sums& sums) {
  const kernel::cuda::FormedQuery formed(
      {*c.node->def, c.inputs, c.node->outputs, c.node->attrs, 1, c.node->forms}, gpu);
  const kernel::cuda::CudaQuery query = formed.query();
  TR_ASSIGN_OR_RETURN(const kernel::cuda::CudaRow* const row, kernel::cuda::choose_cuda_kernel(query));
  TR_ASSIGN_OR_RETURN(const kernel::cuda::AlgorithmTimes times,
                      kernel::cuda::time_algorithms(query, *row, kMostAlgorithms));
  const auto count = static_cast<double>(c.names.size());
  ++sums.measured;
  sums.changed += times.fastest != 0 ? 1 : 0;
  sums.seconds += count * times.seconds;
  sums.first_seconds += count * times.first_seconds;
  return kernel::cuda::kernel_name(row->name, times.fastest);
}

// Fills in what `choices` lacks, within the budget. What cannot be measured (memory) keeps the first.
Sums measure(const runtime::Runtime& rt, const std::vector<Contest>& contests, kernel::cuda::CudaDevice& gpu,
             lower::KernelChoices& choices) {
  Sums sums;
  const TimeNs until = rt.now() + kBudget;
  for (const Contest& c : contests) {
    if (choices.contains(c.key)) continue;
    if (rt.now() > until) break;
    if (const Result<std::string> kernel = fastest(c, gpu, sums); kernel.ok()) choices[c.key] = *kernel;
  }
  return sums;
}

}  // namespace

Task<Result<plan::Plan>> with_measured_algorithms(runtime::Runtime& rt,
                                                  std::shared_ptr<const Prepared> prepared,
                                                  std::string cache_path) {
  plan::Plan plan = prepared->plan;
  kernel::cuda::CudaDevice* const gpu = kernel::cuda::as_cuda(prepared->device.get());
  if (gpu == nullptr) co_return plan;
  const std::string library = kernel::cuda::cuda_kernel_library(*gpu);
  const std::vector<Contest> contests = contests_of(*prepared, library);
  lower::KernelChoices choices = co_await lower::read_choices(rt, cache_path);
  Sums sums;
  const TimeNs began = rt.now();
  const cost::OpCost work{.flops = 1e8, .bytes = 1e7};
  runtime::ComputeFn all = [&](runtime::ComputeContext&) { sums = measure(rt, contests, *gpu, choices); };
  co_await rt.compute(work, std::move(all), 1, "measure");
  for (const Contest& c : contests) {
    const auto at = choices.find(c.key);
    if (at == choices.end() || kernel::cuda::algorithm_of(at->second) == 0) continue;
    for (const std::string& name : c.names)
      plan.kernels[fmt::format("{}:{}", op::formed_name(*c.node->def, c.node->forms), name)] = at->second;
  }
  if (sums.measured > 0) {
    rt.log(fmt::format(
        "measured the algorithms of {} products, convolutions and attentions in {:.2f} s: {} are not the "
        "library's first, {:.3g} instead of {:.3g} ms a step",
        sums.measured, to_seconds(rt.now() - began), sums.changed, 1e3 * sums.seconds,
        1e3 * sums.first_seconds));
    if (!cache_path.empty()) co_await lower::write_choices(rt, std::move(cache_path), std::move(choices));
  }
  co_return plan;
}

std::map<std::string, std::string> without_algorithms(std::map<std::string, std::string> kernels) {
  for (auto& [op, kernel] : kernels) kernel = std::string(kernel::cuda::row_of(kernel));
  return kernels;
}

}  // namespace trireme::prepare
