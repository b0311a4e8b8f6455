#include "trireme/prepare/measured_kernels.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>

#include "trireme/graph/builder.h"
#include "trireme/kernel/kernel.h"
#include "trireme/lower/kernel_cache.h"
#include "trireme/op/forms.h"
#include "trireme/op/node_text.h"
#include "trireme/op/ops.h"
#include "trireme/prepare/measured_algorithms.h"

namespace trireme::prepare {
namespace {

using runtime::Task;

constexpr std::int64_t kImagesPerThread = 4;
constexpr double kFlopsPerThread =
    2e8;                             // where images are small: some milliseconds, not the waking of threads
constexpr double kLeastFlops = 2e7;  // below: a fraction of a millisecond, whatever kernel
constexpr double kHopeless = 1.5;    // times the best so far, after one call
constexpr double kLeastGain = 0.95;  // of the time of the table's choice
constexpr std::size_t kMoreWorkspace = std::size_t{64}
                                       << 20;  // bytes beyond the table's choice: speed is not all
constexpr int kMostCalls = 6;
constexpr TimeNs kEnough = 20 * kMilli;  // of a row's calls, after three

// A convolution with few images, and the rows that take it; the table's choice is the first.
struct Contest {
  const op::OpDef* def = nullptr;
  op::Attrs attrs;
  op::Forms forms;
  std::vector<TensorType> inputs;
  std::vector<std::string> rows;
  std::string key;                 // in the cache
  std::vector<std::string> nodes;  // in the plan
};

bool is_convolution(const op::OpDef& def) {
  return &def == &op::kConv2d || &def == &op::kConv2dInputGrad || &def == &op::kConv2dFilterGrad;
}

// The same attributes for at most `images` images.
op::Attrs cut_input_shape(op::Attrs attrs, std::int64_t images) {
  std::vector<std::int64_t> dims = attrs.get_ints("input_shape");
  dims[0] = std::min(dims[0], images);
  attrs.set("input_shape", std::move(dims));
  return attrs;
}

// The same node for at most `images` images.
void cut_images(Contest& c, std::int64_t images) {
  const auto cut = [&](Shape& s) { s.set(0, std::min(s[0], images)); };
  if (c.def != &op::kConv2dInputGrad) cut(c.inputs[0].shape);
  if (c.def != &op::kConv2d) cut(c.inputs[1].shape);
  if (c.def == &op::kConv2dInputGrad) c.attrs = cut_input_shape(c.attrs, images);
}

std::int64_t images_for(const graph::Graph& g, std::int32_t id, int width) {
  const graph::Node& node = g.node(id);
  const Shape& y = node.def == &op::kConv2d ? node.outputs[0].shape : g.type(node.inputs[1]).shape;
  const auto images = static_cast<double>(y[0]);
  const double enough = std::ceil(kFlopsPerThread * images / graph::node_cost(g, id).flops);
  return width * std::max(kImagesPerThread, static_cast<std::int64_t>(enough));
}

// The first is the table's choice.
std::vector<std::string> rows_for(const Contest& c, int width) {
  std::vector<std::string> rows;
  const auto outputs = op::infer_types(*c.def, c.inputs, c.attrs, c.forms);
  if (!outputs.ok()) return rows;
  const op::KernelQuery query{*c.def, c.inputs, *outputs, c.attrs, width, c.forms};
  std::size_t most_bytes = 0;
  for (const op::KernelRow& row : kernel::cpu_kernels()) {
    if (!kernel::applies(row, query)) continue;
    const std::size_t bytes = row.workspace_bytes == nullptr ? 0 : row.workspace_bytes(query);
    if (rows.empty()) most_bytes = bytes + kMoreWorkspace;
    if (bytes <= most_bytes) rows.emplace_back(row.name);
  }
  if (rows.size() > 1) std::erase(rows, "staged");  // another row with transposes around it
  return rows;
}

// Equal convolutions are one contest.
std::vector<Contest> contests_of(const Prepared& prepared, const std::string& machine) {
  const graph::Graph& g = prepared.train->graph();
  const int width = prepared.plan.shard_threads;
  std::map<std::string, Contest> by_key;
  for (std::int32_t id = 0; id < g.size(); ++id) {
    const graph::Node& node = g.node(id);
    if (!is_convolution(*node.def) || graph::node_cost(g, id).flops < kLeastFlops) continue;
    Contest c;
    c.def = node.def, c.attrs = node.attrs, c.forms = node.forms;
    for (const op::Value v : node.inputs) c.inputs.push_back(g.type(v));
    c.rows = rows_for(c, width);
    if (c.rows.size() < 2) continue;
    cut_images(c, images_for(g, id, width));
    c.key = fmt::format("{}|{} threads|{}", machine, width, op::formed_name(*c.def, c.forms));
    c.key += op::node_text(c.attrs, c.inputs);
    for (const std::string& row : c.rows) c.key += "|" + row;  // a choice among others is none among these
    by_key.try_emplace(c.key, std::move(c)).first->second.nodes.push_back(node.name);
  }
  std::vector<Contest> contests;
  for (auto& [key, c] : by_key) contests.push_back(std::move(c));
  return contests;
}

// One row with its operands, ready to be called.
struct Candidate {
  std::string row;
  std::unique_ptr<exec::Execution> execution;
  double seconds = 0;  // the fastest call so far

  Task<Status> call() {
    TR_CO_RETURN_IF_ERROR(co_await execution->run());
    TR_CO_ASSIGN_OR_RETURN(const exec::Profile profile, execution->profile());
    TimeNs ns = 0;
    for (const exec::NodeProfile& node : profile.nodes) ns += node.min_ns;
    seconds = to_seconds(ns);
    co_return Status();
  }
};

// Numbers of ordinary size: denormals and zeros are multiplied at other speeds.
Result<Tensor> some_values(const TensorType& type) {
  TR_ASSIGN_OR_RETURN(const Tensor t, Tensor::allocate(cpu_device(), type));
  const std::size_t bytes = type.num_bytes();
  constexpr std::uint16_t kOne = 0x3F80, kOnePointFive = 0x3FC0;  // upper halves of f32, which are bf16
  for (std::size_t i = 0; i + 2 <= bytes; i += 2) {
    const std::uint16_t half = i % 12 == 2 ? kOnePointFive : kOne;
    std::memcpy(t.raw() + i, &half, 2);
  }
  return t;
}

Result<Candidate> make_candidate(runtime::Runtime& rt, const Contest& c, const std::string& row, int width) {
  graph::Graph g;
  graph::Builder b(g);
  std::vector<graph::Value> inputs;
  for (std::size_t i = 0; i < c.inputs.size(); ++i)
    inputs.push_back(b.input(fmt::format("x{}", i), c.inputs[i].dtype, c.inputs[i].shape));
  TR_RETURN_IF_ERROR(b.status());
  TR_ASSIGN_OR_RETURN(const graph::Value y, g.add(*c.def, std::move(inputs), c.attrs, "", "", c.forms));
  b.output("y", y);
  exec::CompileOptions options;
  options.width = width;
  options.kernels[op::formed_name(*c.def, c.forms)] = row;
  TR_ASSIGN_OR_RETURN(const auto compiled, exec::compile(g, std::move(options)));
  exec::ExecutionOptions how;
  how.profile = true;
  Candidate out;
  out.row = row;
  TR_ASSIGN_OR_RETURN(out.execution, exec::make_execution(rt, compiled, std::move(how)));
  for (std::size_t i = 0; i < c.inputs.size(); ++i) {
    TR_ASSIGN_OR_RETURN(Tensor value, some_values(c.inputs[i]));
    TR_RETURN_IF_ERROR(out.execution->feed(fmt::format("x{}", i), std::move(value)));
  }
  return out;
}

// The winner. A row that is far behind after one call is called no more.
Task<Result<std::string>> fastest_row(runtime::Runtime& rt, const Contest& c, int width) {
  std::vector<Candidate> field;
  double best = 0;
  for (const std::string& row : c.rows) {
    Result<Candidate> made = make_candidate(rt, c, row, width);
    if (!made.ok()) co_return made.status();
    TR_CO_RETURN_IF_ERROR(co_await made->call());
    best = field.empty() ? made->seconds : std::min(best, made->seconds);
    field.push_back(std::move(*made));
  }
  for (int calls = 1; calls < kMostCalls; ++calls)
    for (Candidate& one : field) {
      const bool enough = calls >= 3 && calls * one.seconds > to_seconds(kEnough);
      if (one.seconds <= kHopeless * best && !enough) TR_CO_RETURN_IF_ERROR(co_await one.call());
    }
  const auto first = std::min_element(field.begin(), field.end(), [](const Candidate& a, const Candidate& b) {
    return a.seconds < b.seconds;
  });
  co_return first->seconds < kLeastGain* field.front().seconds ? first->row : c.rows.front();
}

bool has(const std::vector<std::string>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

}  // namespace

bool may_measure_kernels(const job::Job& job, const runtime::Runtime& rt) {
  return job.train.logical_shards == 0 && !rt.is_virtual() && !rt.is_phantom();
}

Task<Result<plan::Plan>> with_measured_kernels(runtime::Runtime& rt, std::shared_ptr<const Prepared> prepared,
                                               std::string cache_path) {
  if (prepared->device != nullptr)
    co_return co_await with_measured_algorithms(rt, std::move(prepared), std::move(cache_path));
  plan::Plan plan = prepared->plan;
  const std::string machine = co_await lower::machine_text(rt);
  const std::vector<Contest> contests = contests_of(*prepared, machine);
  if (contests.empty()) co_return plan;
  lower::KernelChoices choices = co_await lower::read_choices(rt, cache_path);
  std::size_t measured = 0;
  const TimeNs began = rt.now();
  for (const Contest& c : contests) {
    std::string row = choices[c.key];
    if (!has(c.rows, row)) {
      TR_CO_ASSIGN_OR_RETURN(row, co_await fastest_row(rt, c, plan.shard_threads));
      choices[c.key] = row;
      ++measured;
    }
    if (row == c.rows.front()) continue;
    for (const std::string& node : c.nodes)
      plan.kernels[fmt::format("{}:{}", op::formed_name(*c.def, c.forms), node)] = row;
  }
  if (measured > 0) {
    rt.log(fmt::format("measured the kernels of {} convolutions in {:.2f} s", measured,
                       to_seconds(rt.now() - began)));
    if (!cache_path.empty()) co_await lower::write_choices(rt, std::move(cache_path), std::move(choices));
  }
  co_return plan;
}

}  // namespace trireme::prepare
