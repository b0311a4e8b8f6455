#include "trireme/measure/step/kernel_times.h"

#include <algorithm>
#include <cstring>
#include <map>

#include <fmt/ranges.h>

#include "trireme/graph/builder.h"
#include "trireme/kernel/kernel.h"
#include "trireme/op/forms.h"
#include "trireme/op/ops.h"

namespace trireme::measure {
namespace {

using runtime::Task;

constexpr int kLeastCalls = 3, kMostCalls = 30;
constexpr TimeNs kPerKernel = 250 * kMilli;
constexpr std::string_view kHeavyFamilies[] = {
    "conv2d", "matmul", "attention", "lstm", "gru", "rnn", "max_pool2d", "avg_pool2d", "locally_connected2d"};

bool is_heavy(const graph::Node& node) {
  return std::any_of(std::begin(kHeavyFamilies), std::end(kHeavyFamilies),
                     [&](std::string_view family) { return node.def->name.starts_with(family); });
}

// Nodes of one op, attributes and types.
struct Case {
  const graph::Node* node = nullptr;
  std::vector<TensorType> inputs;
  cost::OpCost cost;
  int nodes = 0;
};

struct Timed {
  std::string kernel;
  double ms = 0;
};

std::string shapes_of(const Case& c) {
  std::string text;
  for (const TensorType& t : c.inputs) text += fmt::format("{}{}", text.empty() ? "" : " ", t.to_string());
  return text;
}

std::string attribute_text(const op::AttrValue& value) {
  struct Printer {
    std::string operator()(DType d) const { return std::string(dtype_name(d)); }
    std::string operator()(const std::vector<std::int64_t>& v) const {
      return fmt::format("{}", fmt::join(v, ","));
    }
    std::string operator()(const std::string& v) const { return v; }
    std::string operator()(std::int64_t v) const { return fmt::format("{}", v); }
    std::string operator()(double v) const { return fmt::format("{}", v); }
    std::string operator()(bool v) const { return v ? "true" : "false"; }
  };
  return std::visit(Printer{}, value);
}

std::string attributes_of(const graph::Node& node) {
  std::string text;
  for (const auto& [name, value] : node.attrs.items())
    text += fmt::format("{}={} ", name, attribute_text(value));
  return text;
}

std::vector<Case> heavy_cases(const graph::Graph& g, double& other_bytes) {
  std::map<std::string, Case> cases;
  for (std::int32_t id = 0; id < g.size(); ++id) {
    const graph::Node& node = g.node(id);
    if (node.def->has(op::kFeed)) continue;
    const cost::OpCost cost = graph::node_cost(g, id);
    if (!is_heavy(node)) {
      if (node.def->name != op::kReshape.name) other_bytes += cost.bytes;
      continue;
    }
    Case one{&node, {}, cost, 0};
    for (const op::Value v : node.inputs) one.inputs.push_back(g.type(v));
    const std::string key =
        fmt::format("{} {} {}", op::formed_name(*node.def, node.forms), attributes_of(node), shapes_of(one));
    ++cases.try_emplace(key, std::move(one)).first->second.nodes;
  }
  std::vector<Case> out;
  for (auto& [key, one] : cases) out.push_back(std::move(one));
  return out;
}

// Values around zero; what counts something (labels, ids) is 0.
Result<Tensor> some_values(const TensorType& type) {
  TR_ASSIGN_OR_RETURN(const Tensor t, Tensor::allocate(cpu_device(), type));
  std::memset(t.raw(), 0, type.num_bytes());
  if (type.dtype != DType::kF32 && type.dtype != DType::kBF16) return t;
  std::uint32_t state = 1;
  const std::int64_t n = type.shape.num_elems();
  for (std::int64_t i = 0; i < n; ++i) {
    state = state * 1664525U + 1013904223U;
    const float v = static_cast<float>(state >> 8) / (1 << 24) - 0.5F;
    std::uint32_t bits = 0;
    std::memcpy(&bits, &v, sizeof bits);
    if (type.dtype == DType::kF32)
      std::memcpy(t.raw() + 4 * i, &bits, 4);
    else
      std::memcpy(t.raw() + 2 * i, reinterpret_cast<const char*>(&bits) + 2, 2);
  }
  return t;
}

Result<graph::Graph> graph_of(const Case& c) {
  graph::Graph g;
  graph::Builder b(g);
  std::vector<graph::Value> inputs;
  for (std::size_t i = 0; i < c.inputs.size(); ++i)
    inputs.push_back(b.input(fmt::format("x{}", i), c.inputs[i].dtype, c.inputs[i].shape));
  TR_RETURN_IF_ERROR(b.status());
  TR_ASSIGN_OR_RETURN(const graph::Value y, g.add_like(*c.node, std::move(inputs)));
  for (std::size_t i = 0; i < c.node->outputs.size(); ++i)
    b.output(fmt::format("y{}", i), {y.node, static_cast<std::int32_t>(i)});
  return g;
}

// The fastest of several calls, with the executor of a job.
Task<Result<double>> best_ms(runtime::Runtime& rt, const Case& c, std::string kernel) {
  TR_CO_ASSIGN_OR_RETURN(const graph::Graph g, graph_of(c));
  exec::CompileOptions options;
  options.width = rt.compute_threads();
  if (!kernel.empty()) options.kernels[op::formed_name(*c.node->def, c.node->forms)] = std::move(kernel);
  TR_CO_ASSIGN_OR_RETURN(const auto compiled, exec::compile(g, std::move(options)));
  exec::ExecutionOptions how;
  how.profile = true;
  TR_CO_ASSIGN_OR_RETURN(const auto execution, exec::make_execution(rt, compiled, std::move(how)));
  for (std::size_t i = 0; i < c.inputs.size(); ++i) {
    TR_CO_ASSIGN_OR_RETURN(Tensor value, some_values(c.inputs[i]));
    TR_CO_RETURN_IF_ERROR(execution->feed(fmt::format("x{}", i), std::move(value)));
  }
  const TimeNs begin = rt.now();
  for (int call = 0; call < kMostCalls && (call <= kLeastCalls || rt.now() - begin < kPerKernel); ++call)
    TR_CO_RETURN_IF_ERROR(co_await execution->run());
  TR_CO_ASSIGN_OR_RETURN(const exec::Profile profile, execution->profile());
  TimeNs ns = 0;
  for (const exec::NodeProfile& node : profile.nodes) ns += node.min_ns;
  co_return to_seconds(ns) * 1e3;
}

// Every kernel that takes the case, fastest first.
Task<Result<std::vector<Timed>>> time_kernels(runtime::Runtime& rt, const Case& c) {
  std::vector<std::string> names;
  const op::KernelQuery query{*c.node->def,         c.inputs,     c.node->outputs, c.node->attrs,
                              rt.compute_threads(), c.node->forms};
  for (const op::KernelRow& row : kernel::cpu_kernels())
    if (kernel::applies(row, query)) names.emplace_back(row.name);
  if (names.empty()) names.emplace_back("reference");
  std::vector<Timed> times;
  for (const std::string& name : names) {
    Result<double> ms = co_await best_ms(rt, c, name);
    if (!ms.ok()) co_return ms.status();
    times.push_back({name, *ms});
  }
  std::sort(times.begin(), times.end(), [](const Timed& a, const Timed& b) { return a.ms < b.ms; });
  co_return times;
}

// A large product: what the units reach.
Task<Result<double>> peak_gflops(runtime::Runtime& rt, DType dtype) {
  const std::int64_t n = rt.compute_threads() > 4 ? 3072 : 1536;
  graph::Graph g;
  graph::Builder b(g);
  const graph::Value x = b.input("x", dtype, Shape{n, n}), w = b.input("w", dtype, Shape{n, n});
  const graph::Value y = b.matmul(x, w);
  TR_CO_RETURN_IF_ERROR(b.status());
  const Case product{&g.node(y.node), {g.type(x), g.type(w)}, {}, 1};
  Result<double> ms = co_await best_ms(rt, product, "");
  if (!ms.ok()) co_return ms;
  const double flops = 2.0 * static_cast<double>(n) * static_cast<double>(n) * static_cast<double>(n);
  co_return flops * 1e-6 / *ms;
}

// A copy far larger than caches: bytes read and written.
Task<double> stream_bytes_per_second(runtime::Runtime& rt) {
  constexpr std::size_t kBytes = 256U << 20;
  constexpr int kCopies = 7;
  std::vector<std::byte> from(kBytes, std::byte{1}), to(kBytes);
  double best = 0;
  for (int i = 0; i < kCopies; ++i) {
    runtime::ComputeFn copy = [&](runtime::ComputeContext& context) {
      context.parallel_for(static_cast<std::int64_t>(kBytes), [&](std::int64_t begin, std::int64_t end, int) {
        std::memcpy(to.data() + begin, from.data() + begin, static_cast<std::size_t>(end - begin));
      });
    };
    const TimeNs began = rt.now();
    co_await rt.compute({}, std::move(copy), rt.compute_threads(), "copy");
    best = std::max(best, 2.0 * kBytes / to_seconds(rt.now() - began));
  }
  co_return best;
}

Json row_of(const Case& c, const std::vector<Timed>& times, double peak, double stream) {
  const double ms = times.front().ms, gflops = c.cost.flops * 1e-6 / ms, gbytes = c.cost.bytes * 1e-6 / ms;
  Json others = Json::array();
  for (std::size_t i = 1; i < times.size(); ++i)
    others.push_back({{"kernel", times[i].kernel}, {"ms", times[i].ms}});
  return {{"op", op::formed_name(*c.node->def, c.node->forms)},
          {"kernel", times.front().kernel},
          {"shapes", shapes_of(c)},
          {"node", c.node->name},
          {"nodes", c.nodes},
          {"ms", ms},
          {"gflops", gflops},
          {"gbytes_per_second", gbytes},
          {"of_peak", std::max(peak > 0 ? gflops / peak : 0, stream > 0 ? gbytes * 1e9 / stream : 0)},
          {"others", std::move(others)}};
}

}  // namespace

Task<Result<Json>> measure_kernels(runtime::Runtime& rt, const prepare::Prepared& prepared,
                                   std::string dtype) {
  Result<double> peak = co_await peak_gflops(rt, dtype == "bf16" ? DType::kBF16 : DType::kF32);
  if (!peak.ok()) co_return peak.status();
  const double stream = co_await stream_bytes_per_second(rt);
  double other_bytes = 0, heavy_ms = 0;
  const std::vector<Case> cases = heavy_cases(prepared.train->graph(), other_bytes);
  for (const prepare::Compiled& update : prepared.updates) other_bytes += update->cost().bytes;
  std::vector<Json> rows;
  for (const Case& c : cases) {
    Result<std::vector<Timed>> times = co_await time_kernels(rt, c);
    if (!times.ok()) co_return times.status();
    heavy_ms += c.nodes * times->front().ms;
    rows.push_back(row_of(c, *times, *peak, stream));
  }
  const auto share = [](const Json& row) { return row["nodes"].get<int>() * row["ms"].get<double>(); };
  std::stable_sort(rows.begin(), rows.end(),
                   [&](const Json& a, const Json& b) { return share(a) > share(b); });
  const double other_ms = other_bytes / stream * 1e3;
  co_return Json{{"kernels", rows},
                 {"heavy_ms", heavy_ms},
                 {"other_bytes", other_bytes},
                 {"other_ms", other_ms},
                 {"least_ms", heavy_ms + other_ms},
                 {"peak_gflops", *peak},
                 {"stream_gbytes_per_second", stream * 1e-9}};
}

}  // namespace trireme::measure
