#include "trireme/engine/first_broken.h"

#include <algorithm>

#include "trireme/op/forms.h"
#include "trireme/plan/slots.h"

namespace trireme::engine {
namespace {

template <class Bits>
bool none_has_exponent(const Tensor& t, Bits exponent) {
  bool none = true;
  for_runs(t, {0, t.shape().num_elems()}, [&](const std::byte* bytes, std::int64_t, std::int64_t count) {
    const auto* at = reinterpret_cast<const Bits*>(bytes);
    none = none && std::none_of(at, at + count, [&](Bits b) { return (b & exponent) == exponent; });
  });
  return none;
}

std::string probe_name(std::int32_t node, std::int32_t index) {
  return fmt::format("probe:{}:{}", node, index);
}

// The nodes that the loss depends on, by number; all where there is no loss.
std::vector<bool> nodes_of_loss(const graph::Graph& graph) {
  const std::optional<graph::Value> loss = graph.find_output("loss");
  std::vector<bool> needed(static_cast<std::size_t>(graph.size()), !loss);
  if (loss) needed[static_cast<std::size_t>(loss->node)] = true;
  for (std::int32_t i = graph.size() - 1; i >= 0; --i)  // what a node reads comes before it
    if (needed[static_cast<std::size_t>(i)])
      for (const graph::Value v : graph.node(i).inputs) needed[static_cast<std::size_t>(v.node)] = true;
  return needed;
}

}  // namespace

bool all_finite(const Tensor& t) {
  if (t.raw() == nullptr) return true;
  switch (t.dtype()) {
    case DType::kF32:
      return none_has_exponent<std::uint32_t>(t, 0x7F800000U);
    case DType::kF64:
      return none_has_exponent<std::uint64_t>(t, 0x7FF0000000000000ULL);
    case DType::kBF16:
      return none_has_exponent<std::uint16_t>(t, 0x7F80U);
    case DType::kF16:
      return none_has_exponent<std::uint16_t>(t, 0x7C00U);
    default:
      return true;
  }
}

runtime::Task<std::string> find_not_finite(runtime::Runtime& rt, io::NamedTensors tensors) {
  double bytes = 0;
  for (const auto& [name, tensor] : tensors) bytes += static_cast<double>(tensor.type().num_bytes());
  std::vector<char> finite(tensors.size(), 1);
  const auto count = static_cast<std::int64_t>(tensors.size());
  runtime::ComputeFn look = [&](runtime::ComputeContext& context) {
    context.parallel_for(count, [&](std::int64_t begin, std::int64_t end, int) {
      for (auto i = static_cast<std::size_t>(begin); i < static_cast<std::size_t>(end); ++i)
        finite[i] = all_finite(tensors[i].second) ? 1 : 0;
    });
  };
  const cost::OpCost work{.flops = bytes / 4, .bytes = bytes};
  co_await rt.compute(work, std::move(look), rt.compute_threads(), "look for NaN");
  for (std::size_t i = 0; i < finite.size(); ++i)
    if (finite[i] == 0) co_return tensors[i].first;
  co_return std::string();
}

runtime::Task<Result<std::string>> find_not_finite(runtime::Runtime& rt, comm::Group& group,
                                                   const HeldState& holding, std::int64_t step) {
  const bool same = all_replicated(holding.all);
  if (same && holding.rank != 0) co_return std::string();
  io::NamedTensors first;
  for (std::size_t i = 0; i < holding.size(); ++i)
    if (same || holders(holding.all, i, holding.rank)[0] == holding.rank)
      for (const Tensor& piece : holding.own[i].pieces) first.emplace_back(holding.tensor(i).name, piece);
  std::string own;
  if (!first.empty()) own = co_await find_not_finite(rt, std::move(first));
  if (same) co_return own;
  const auto none = static_cast<std::int64_t>(holding.size());
  TR_CO_ASSIGN_OR_RETURN(const Tensor found,
                         Tensor::allocate(cpu_device(), {DType::kI64, {std::int64_t{group.world()}}}));
  std::int64_t& at = found.data<std::int64_t>()[group.rank()];
  at = none;
  for (std::size_t i = holding.size(); i-- > 0;)
    if (!own.empty() && holding.tensor(i).name == own) at = static_cast<std::int64_t>(i);
  comm::Call call;
  call.slot = plan::kSlotFinite;
  call.step = static_cast<std::uint32_t>(step);
  call.label = "look for NaN";
  const Tensor in_place;
  TR_CO_RETURN_IF_ERROR(co_await group.allgather(std::move(call), in_place, found));
  const auto all = found.values<std::int64_t>();
  const std::int64_t least = *std::min_element(all.begin(), all.end());
  co_return least < none ? holding.tensor(static_cast<std::size_t>(least)).name : std::string();
}

runtime::Task<Result<std::string>> find_first_broken(runtime::Runtime& rt, graph::Graph graph,
                                                     exec::Variables& variables,
                                                     const model::ModelInput& input,
                                                     const prepare::BatchTensors& batch, RunAgain how) {
  for (const std::string& name : variables.names()) {
    const Result<Tensor> w = variables.get(name);
    if (graph.find_variable(name) && w.ok() && !all_finite(*w))
      co_return fmt::format("variable '{}', which an earlier update broke", name);
  }
  if (!all_finite(batch.x)) co_return std::string("the data of this batch");
  exec::CompileOptions options;
  options.device = std::move(how.device);
  const std::int32_t size = graph.size();
  const std::vector<bool> needed = nodes_of_loss(graph);
  std::vector<graph::Value> probes;
  for (std::int32_t i = 0; i < size; ++i) {
    const op::OpDef& def = *graph.node(i).def;
    if (!needed[static_cast<std::size_t>(i)] || def.has(op::kFeed) || def.has(op::kMutates)) continue;
    for (std::int32_t k = 0; k < static_cast<std::int32_t>(graph.node(i).outputs.size()); ++k)
      probes.push_back({i, k});
  }
  for (const graph::Value v : probes) {
    options.fetches.push_back(probe_name(v.node, v.index));
    graph.set_output(options.fetches.back(), v);
  }
  TR_CO_ASSIGN_OR_RETURN(const auto compiled, exec::compile(graph, std::move(options)));
  exec::ExecutionOptions with;
  with.variables = &variables;
  with.host_ops = std::move(how.host_ops);
  TR_CO_ASSIGN_OR_RETURN(const auto execution, exec::make_execution(rt, compiled, std::move(with)));
  TR_CO_RETURN_IF_ERROR(prepare::feed_batch(*execution, compiled->graph(), input, batch));
  TR_CO_RETURN_IF_ERROR(prepare::feed_tile(*execution, compiled->graph(), how.tile));
  TR_CO_RETURN_IF_ERROR(co_await execution->run());
  for (const graph::Value v : probes) {
    TR_CO_ASSIGN_OR_RETURN(const Tensor t, execution->fetch(probe_name(v.node, v.index)));
    if (all_finite(t)) continue;
    const graph::Node& node = graph.node(v.node);
    co_return fmt::format("'{}' ({}), though what it reads is finite", node.name,
                          op::formed_name(*node.def, node.forms));
  }
  co_return std::string();
}

}  // namespace trireme::engine
