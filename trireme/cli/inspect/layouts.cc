// `trireme inspect layouts`: how the tensors of a model would lie on a mesh, and what has to move between
// positions in a step, by the cost model: what parallel.mesh, style and layouts come to. Trains nothing.
#include "trireme/base/units.h"
#include "trireme/cli/command.h"
#include "trireme/cli/inspect/parts.h"
#include "trireme/cli/plan_options.h"
#include "trireme/job/job_options.h"
#include "trireme/job/job_parts.h"
#include "trireme/job/roles.h"
#include "trireme/op/ops.h"
#include "trireme/parallel/shard/axis_collective.h"
#include "trireme/parallel/shard/chunk.h"
#include "trireme/parallel/shard/style.h"
#include "trireme/prepare/make_plan.h"
#include "trireme/prepare/tiles.h"
#include "trireme/runtime/real/real_runtime.h"

namespace trireme::cli {
namespace {

using parallel::AxisLayouts;

struct LayoutArgs {
  InspectSource model;
  std::string mesh, style;        // empty: as the job says
  std::vector<std::string> pins;  // beside the job's
  bool json = false;
};

// A model laid out along one axis.
struct LaidOutAxis {
  parallel::ShardAxis axis;
  std::map<std::string, op::AxisCut> cuts;  // of variables
  std::vector<parallel::ReshardRow> moves;
  std::vector<std::size_t> chunks;  // of each move
  double seconds = 0, bytes = 0;    // of the moves of a step
  bool is_best = true;
};
struct LaidOutModel {
  std::string mesh, style;
  std::map<std::string, TensorType> wholes, parts;  // of variables; parts of rank 0
  std::vector<LaidOutAxis> axes;
};

// How a run would cut the model.
struct LayoutPrices {
  parallel::AxisCosts choice, measured;
  double runs = 1;  // of the graph in a step: the shards of a replica
};

// Bytes that position 0 sends for each move that is made in chunks, by what it is for.
std::map<std::string, double> bytes_in_chunks(const graph::Graph& in_chunks,
                                              const parallel::ChunkPlan& plan) {
  std::map<std::string, double> bytes;
  for (std::int32_t id = 0; id < in_chunks.size(); ++id) {
    const graph::Node& node = in_chunks.node(id);
    if (parallel::is_collective_along(node, plan.axis.name))
      bytes[node.attrs.get_text("label")] +=
          parallel::bytes_sent(parallel::collective_of(in_chunks, node, plan.axis.num_parts), 0);
  }
  return bytes;
}

Result<LaidOutAxis> lay_out(const parallel::ShardAxis& axis, const std::string& style_name,
                            const std::vector<parallel::LayoutPin>& pins, const LayoutPrices& prices,
                            const parallel::ChunkRequest& chunks, graph::Graph& graph) {
  TR_ASSIGN_OR_RETURN(const parallel::StyleRow* style, parallel::find_style(style_name));
  parallel::ShardRequest request;
  request.axis = axis;
  request.costs = prices.choice;
  TR_RETURN_IF_ERROR(restrict_to(style, pins, graph, request));
  TR_ASSIGN_OR_RETURN(const AxisLayouts layouts, choose_layouts(graph, request));
  LaidOutAxis out;
  out.axis = axis;
  out.is_best = layouts.is_best;
  for (const auto& [name, v] : graph.variables()) out.cuts.emplace(name, layouts.cut_of(graph, name));
  TR_ASSIGN_OR_RETURN(out.moves, reshards_of(graph, layouts, prices.measured));
  TR_ASSIGN_OR_RETURN(graph, shard_graph(graph, layouts, 0));
  const parallel::ChunkPlan plan = choose_chunks(graph, axis, chunks);
  std::map<std::string, double> in_chunks;
  if (!plan.moves.empty()) {
    TR_ASSIGN_OR_RETURN(const graph::Graph chunked, chunk_graph(graph, plan, 0));
    in_chunks = bytes_in_chunks(chunked, plan);
  }
  for (parallel::ReshardRow& row : out.moves) {
    out.chunks.push_back(chunks_of(plan, row));
    if (out.chunks.back() > 1) row.bytes = in_chunks[row.node];
    row.seconds *= prices.runs;
    row.bytes *= prices.runs;
    out.seconds += row.seconds;
    out.bytes += row.bytes;
  }
  return out;
}

std::map<std::string, TensorType> types_of(const graph::Graph& graph) {
  std::map<std::string, TensorType> types;
  for (const auto& [name, v] : graph.variables()) types.emplace(name, graph.type(v));
  return types;
}

void apply(const LayoutArgs& args, job::Job& job) {
  const std::string mesh = !args.mesh.empty() || !job.parallel.mesh.empty() ? args.mesh : "model=2";
  if (!args.style.empty()) job.options.set(job::kStyle.name, args.style);
  take_mesh(mesh, job);
}

// The data axis cuts the batch into logical shards, outside of the graph.
Result<LaidOutModel> lay_out(const LayoutArgs& args, const InspectedModel& found) {
  LaidOutModel out;
  out.mesh = found.job.parallel.mesh;
  out.style = found.job.options.text(job::kStyle);
  TR_ASSIGN_OR_RETURN(const parallel::Mesh mesh, job::parse_job_mesh(out.mesh));
  std::vector<std::string> texts = found.job.parallel.layouts.value_or(std::vector<std::string>());
  texts.insert(texts.end(), args.pins.begin(), args.pins.end());
  std::vector<parallel::LayoutPin> pins;
  for (const std::string& text : texts) {
    TR_ASSIGN_OR_RETURN(parallel::LayoutPin pin, parallel::parse_pin(text));
    if (mesh.size_of(pin.axis) == 1)
      return error(Code::kInvalid, "[inspect] --layout '{}': the mesh {} has no axis '{}'", text, out.mesh,
                   pin.axis);
    pins.push_back(std::move(pin));
  }
  runtime::RealOptions real;
  real.name = "inspect";
  const auto rt = runtime::make_real_runtime(real);
  const prepare::PrepareOptions options = plan_options(*rt, found.job);
  const cost::Rates rates = prepare::rates_of(options);
  const int replicas = mesh.num_replicas();
  const std::int64_t shards = prepare::logical_shards_of(found.job, replicas),
                     batch = prepare::shard_batch_of(found.job, replicas);
  const parallel::AxisCosts costs{rates.comm, rates.machine, prepare::shard_threads_of(found.job, options)};
  const LayoutPrices prices{prepare::prices_of_choice(found.job, costs), costs,
                            static_cast<double>((shards + replicas - 1) / replicas)};
  TR_ASSIGN_OR_RETURN(model::ModelGraphs model, job::build_job_model(found.job, found.input.input, batch));
  out.wholes = types_of(model.train);
  for (const parallel::Axis& axis : mesh.axes) {
    if (axis.name == parallel::kDataAxis || axis.size == 1) continue;
    const bool moves_in_chunks = axis.name == parallel::kModelAxis;
    TR_ASSIGN_OR_RETURN(
        LaidOutAxis one,
        lay_out({axis.name, axis.size}, out.style, pins, prices,
                moves_in_chunks ? prepare::chunk_request(found.job) : parallel::ChunkRequest(), model.train));
    out.axes.push_back(std::move(one));
  }
  out.parts = types_of(model.train);
  return out;
}

std::string layout_text(const LaidOutModel& model, const std::string& name) {
  std::string text;
  for (const LaidOutAxis& axis : model.axes)
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", axis.axis.name, axis.cuts.at(name).to_text());
  return text;
}

std::string to_of(const parallel::ReshardRow& row) {
  return row.to.to_text() + (row.collective == op::kHaloExchange.name ? " and its edges" : "");
}

Json to_json(const LaidOutModel& model) {
  Json tensors = Json::array(), axes = Json::array();
  for (const auto& [name, whole] : model.wholes) {
    const TensorType& part = model.parts.at(name);
    Json layout = Json::object();
    for (const LaidOutAxis& axis : model.axes) layout[axis.axis.name] = axis.cuts.at(name).to_text();
    tensors.push_back({{"name", name},
                       {"layout", std::move(layout)},
                       {"shape", whole.to_string()},
                       {"local_shape", part.to_string()},
                       {"bytes", part.num_bytes()}});
  }
  for (const LaidOutAxis& axis : model.axes) {
    Json moves = Json::array();
    for (std::size_t i = 0; i < axis.moves.size(); ++i) {
      const parallel::ReshardRow& row = axis.moves[i];
      moves.push_back({{"node", row.node},
                       {"from", row.from.to_text()},
                       {"to", to_of(row)},
                       {"collective", row.collective},
                       {"axis", axis.axis.name},
                       {"bytes", row.bytes},
                       {"seconds", row.seconds},
                       {"chunks", axis.chunks[i]}});
    }
    axes.push_back({{"axis", axis.axis.name},
                    {"size", axis.axis.num_parts},
                    {"reshards", std::move(moves)},
                    {"bytes", axis.bytes},
                    {"seconds", axis.seconds},
                    {"is_best", axis.is_best}});
  }
  return {{"mesh", model.mesh},
          {"style", model.style},
          {"tensors", std::move(tensors)},
          {"axes", std::move(axes)}};
}

std::string to_text(const LaidOutModel& model) {
  std::string text = fmt::format("Mesh {}, style {}\n\n", model.mesh, model.style);
  std::uint64_t whole_bytes = 0, part_bytes = 0;
  std::size_t width = 0;
  for (const auto& [name, whole] : model.wholes) width = std::max(width, name.size());
  for (const auto& [name, whole] : model.wholes) {
    const TensorType& part = model.parts.at(name);
    whole_bytes += whole.num_bytes();
    part_bytes += part.num_bytes();
    text += fmt::format("{:<{}}  {:<24}  {:>12}  {}\n", name, width, part.to_string(),
                        format_bytes(part.num_bytes()), layout_text(model, name));
  }
  text +=
      fmt::format("\nParameters per rank: {} of {}\n", format_bytes(part_bytes), format_bytes(whole_bytes));
  for (const LaidOutAxis& axis : model.axes) {
    text +=
        fmt::format("\nAxis {} ({} positions): {} moves in a step, {} sent by rank 0, about {:.3f} ms{}\n",
                    axis.axis.name, axis.axis.num_parts, axis.moves.size(),
                    format_bytes(static_cast<std::uint64_t>(axis.bytes)), 1e3 * axis.seconds,
                    axis.is_best ? "" : " (a cheaper layout may exist)");
    for (std::size_t i = 0; i < axis.moves.size(); ++i) {
      const parallel::ReshardRow& row = axis.moves[i];
      text += fmt::format("  {:<15} {:>10}  {} -> {}  {}{}\n", row.collective,
                          format_bytes(static_cast<std::uint64_t>(row.bytes)), row.from.to_text(), to_of(row),
                          row.node, axis.chunks[i] > 1 ? fmt::format(", in {} chunks", axis.chunks[i]) : "");
    }
  }
  return text;
}

Status run(const LayoutArgs& args) {
  TR_ASSIGN_OR_RETURN(const InspectedModel found, load_inspected(args.model, [&](job::Job& job) {
                        apply(args, job);
                        return Status();
                      }));
  TR_ASSIGN_OR_RETURN(const LaidOutModel model, lay_out(args, found));
  if (args.json) {
    Json json = to_json(model);
    json["model"] = headline_json(found);
    print_text(json.dump(2) + "\n");
    return {};
  }
  print_text(headline(found) + "\n" + to_text(model));
  return {};
}

std::string style_names() {
  std::string names;
  for (const parallel::StyleRow& row : parallel::style_table())
    names += fmt::format("{}{}", names.empty() ? "" : ", ", row.name);
  return names;
}

}  // namespace

std::function<int()> add_inspect_layouts(Options& inspect) {
  auto args = std::make_shared<LayoutArgs>();
  Options* sub = inspect.add_subcommand(
      "layouts", "Show how a model is cut over a mesh, and what moves between its positions in a step.");
  add_inspect_source(*sub, args->model);
  sub->add_option("--mesh", args->mesh, "Axes and their sizes. Default: parallel.mesh, or model=2");
  sub->add_option("--style", args->style,
                  "How weights are cut: " + style_names() + ". Default: parallel.style");
  sub->add_option("--layout", args->pins,
                  "Pin tensors by name, such as \"fc*/weight: model=0\"; may be repeated");
  sub->add_flag("--json", args->json, "As JSON");
  return [args, sub] {
    if (!sub->parsed()) return kExitOk;
    const Status status = run(*args);
    return status.ok() ? kExitOk : print_error(status);
  };
}

}  // namespace trireme::cli
