// `trireme inspect ops|models|...`: the tables, as text or JSON. Topics with options of their own are in
// inspect_<topic>.cc.
#include <algorithm>

#include "trireme/agree/agree.h"
#include "trireme/base/json.h"
#include "trireme/cli/command.h"
#include "trireme/cli/inspect/parts.h"
#include "trireme/codec/codec.h"
#include "trireme/collective/schedule.h"
#include "trireme/comm/host_ops.h"
#include "trireme/kernel/cuda/cuda.h"
#include "trireme/kernel/kernel.h"
#include "trireme/op/op.h"

namespace trireme::cli {

// Subcommands in files of their own.
std::function<int()> add_inspect_op(Options& inspect);
std::function<int()> add_inspect_schedule(Options& inspect);
std::function<int()> add_inspect_step(Options& inspect);
std::function<int()> add_inspect_layouts(Options& inspect);
std::function<int()> add_inspect_timetable(Options& inspect);
std::function<int()> add_inspect_stages(Options& inspect);
namespace {

Json list_ops() {
  Json rows = Json::array();
  for (const op::OpDef* def : op::op_table()) {
    Json kernels = Json::array();
    if (def->reference != nullptr) kernels.push_back("reference");
    for (const op::KernelRow& row : kernel::cpu_kernels())
      if (def->name == row.op && std::find(kernels.begin(), kernels.end(), row.name) == kernels.end())
        kernels.push_back(row.name);  // rows for other forms of operands may have the same name
    const bool is_host = def->has(op::kHostOp), runs = !is_host || comm::has_host_op(def->name);
    Json devices = Json::array();
    if (runs) devices.push_back(is_host ? "host" : "cpu");
    const auto gpu = kernel::cuda::cuda_kernels();
    if (std::any_of(gpu.begin(), gpu.end(), [&](const auto& row) { return def->name == row.op; }))
      devices.push_back("cuda");
    rows.push_back({{"name", def->name},
                    {"family", def->family},
                    {"has_grad", def->grad != nullptr},
                    {"has_cost", def->cost != nullptr},
                    {"has_layout", def->layout != nullptr},
                    {"runs", runs},
                    {"devices", devices},
                    {"kernels", kernels},
                    {"doc", def->doc}});
  }
  return rows;
}

const char* pace_name(agree::Pace pace) {
  switch (pace) {
    case agree::Pace::kStep:
      return "step";
    case agree::Pace::kPeriod:
      return "period";
    case agree::Pace::kBound:
      return "bound";
    case agree::Pace::kFree:
      return "free";
  }
  return "";
}

Json keys_of(const agree::AgreementRow& row) {
  Json keys = Json::array();
  for (const OptionSpec& spec : row.options) keys.push_back(fmt::format("parallel.{}", spec.name));
  return keys;
}

Json list_agreements() {
  Json rows = Json::array();
  for (const agree::AgreementRow& row : agree::agreement_table())
    rows.push_back({{"name", row.name},
                    {"needs_server", row.needs_server},
                    {"synchronous", row.synchronous},
                    {"paper", row.paper},
                    {"pace", pace_name(row.pace)},
                    {"updates_here", row.updates_here},
                    {"keys", keys_of(row)},
                    {"doc", row.doc}});
  return rows;
}

Json list_collectives() {
  Json rows = Json::array();
  for (const collective::Algorithm& row : collective::algorithm_table())
    rows.push_back({{"name", row.name},
                    {"kind", collective::kind_name(row.kind)},
                    {"fixed_order", row.fixed_order},
                    {"doc", row.doc}});
  return rows;
}

Json list_codecs() {
  Json rows = Json::array();
  for (const codec::CodecRow& row : codec::codec_table())
    rows.push_back({{"name", row.name},
                    {"bound", codec::bound_name(row.bound)},
                    {"needs_feedback", row.needs_feedback},
                    {"links", {"sums", "servers", "peers"}},
                    {"wire_id", row.wire_id},
                    {"bytes_per_value", row.bytes({}, 1e6) / 1e6},
                    {"paper", row.paper},
                    {"doc", row.doc}});
  // Those that are no codecs of single values: other ways to make a sum.
  rows.push_back({{"name", "powersgd"},
                  {"bound", "contraction"},
                  {"needs_feedback", true},
                  {"links", {"sums"}},
                  {"paper", "Vogels et al. 2019, PowerSGD"},
                  {"doc", "A matrix as two thin ones, by one step of a power iteration."}});
  rows.push_back(
      {{"name", "factors"},
       {"bound", "exact"},
       {"needs_feedback", false},
       {"links", {"sums", "servers"}},
       {"paper",
        "Xie et al. 2016, Lighter-communication distributed machine learning via sufficient factor "
        "broadcasting; Zhang et al. 2017, Poseidon; Chilimbi et al. 2014, Project Adam"},
       {"doc",
        "Inputs and output gradients of fully connected layers instead of the gradient, their matmul."}});
  return rows;
}

struct Topic {
  const char* name;
  const char* doc;
  Json (*list)();
};
constexpr Topic kTopics[] = {
    {"ops", "List all ops: gradient, cost, layouts, whether it runs, devices, kernels.", list_ops},
    {"models", "List the model zoo: inputs, options and number of parameters.", list_models},
    {"layers", "List the kinds of layers for model.layers, with their attributes.", list_layers},
    {"optimizers", "List the optimizers, with their attributes and states.", list_optimizers},
    {"data", "List the kinds of data.", list_data},
    {"agreements", "List the agreements: how replicas keep one model.", list_agreements},
    {"codecs", "List the codecs: how gradients are compressed.", list_codecs},
    {"styles", "List the styles: how the model axis of a mesh cuts a model.", list_styles},
    {"collectives", "List the collective algorithms.", list_collectives},
};

}  // namespace

std::function<int()> add_inspect(Options& app) {
  app.require_subcommand();
  auto json = std::make_shared<bool>(false);
  app.add_flag("--json", *json, "As JSON");
  for (const Topic& topic : kTopics) {
    Options* sub = app.add_subcommand(topic.name, topic.doc);
    sub->add_flag("--json", *json, "As JSON");
    sub->callback([json, list = topic.list] {
      const Json rows = list();
      if (*json) print_text(rows.dump(2) + "\n");
      if (!*json) print_rows(rows);
    });
  }
  // Each runs when its own subcommand was parsed and does nothing otherwise.
  std::vector<std::function<int()>> parts;
  for (const auto add : {add_inspect_model, add_inspect_graph, add_inspect_schedules, add_inspect_job,
                         add_inspect_op, add_inspect_schedule, add_inspect_step, add_inspect_layouts,
                         add_inspect_timetable, add_inspect_stages})
    parts.push_back(add(app));
  return [parts = std::move(parts)] {
    for (const std::function<int()>& part : parts)
      if (const int code = part(); code != kExitOk) return code;
    return kExitOk;
  };
}

}  // namespace trireme::cli
