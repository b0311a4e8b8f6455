#include "trireme/apply/load_model.h"

#include <algorithm>
#include <optional>

#include "trireme/apply/score_model.h"
#include "trireme/engine/state/stored_state.h"
#include "trireme/io/generation.h"
#include "trireme/io/reader.h"
#include "trireme/job/data_record.h"
#include "trireme/job/eval_batch.h"
#include "trireme/job/job_parts.h"
#include "trireme/lower/faster_graph.h"
#include "trireme/lower/open_device.h"
#include "trireme/plan/slots.h"
#include "trireme/prepare/batch.h"
#include "trireme/record/position.h"

namespace trireme::apply {
namespace {

using runtime::Runtime;
using runtime::Task;

Task<bool> there(Runtime& rt, std::string path) {
  const Result<bool> found = co_await rt.files().exists(path);
  co_return found.ok() && *found;
}

Status set_data_keys(job::Job& job, const std::vector<std::string>& sets) {
  for (const std::string& set : sets) {
    if (!set.starts_with("data."))
      return error(Code::kInvalid,
                   "[model] --set {}: the model is as it was trained; only keys of [data] may differ", set);
    TR_RETURN_IF_ERROR(job::set_job_key(job, set));
  }
  return job::check_job(job);
}

Task<Result<job::Job>> read_job_of(Runtime& rt, const ModelSource& source) {
  const bool given = !source.job_path.empty();
  const std::string path = given ? source.job_path : source.path + "/job.toml";
  const bool found = co_await there(rt, path);
  if (!found && given) co_return error(Code::kInvalid, "[model] --job {}: there is no such file", path);
  if (!found)
    co_return error(Code::kInvalid,
                    "[model] {} is not the folder of a run: it has no job.toml; give a folder such as "
                    "runs/digits-1, or a checkpoint together with --job FILE",
                    source.path);
  Result<Bytes> bytes = co_await rt.files().read(path);
  if (!bytes.ok()) co_return bytes.status();
  TR_CO_ASSIGN_OR_RETURN(job::Job job, job::parse_job(as_text(*bytes), path));
  TR_CO_RETURN_IF_ERROR(set_data_keys(job, source.sets));
  co_return job;
}

// Steps of the run if it is finished.
Task<std::int64_t> finished_steps(Runtime& rt, std::string run_dir) {
  const std::string path = run_dir + "/summary.json";
  const Result<Bytes> bytes = co_await rt.files().read(path);
  if (!bytes.ok()) co_return -1;
  const Result<Json> json = parse_json(as_text(*bytes), path);
  if (!json.ok() || !json->is_object()) co_return -1;
  const Result<bool> finished = json_get<bool>(*json, "finished");
  const Result<std::int64_t> steps = json_get<std::int64_t>(*json, "steps");
  co_return finished.ok() && *finished&& steps.ok() ? *steps : -1;
}

Task<Result<std::shared_ptr<const plan::Plan>>> read_plan(Runtime& rt, std::string run_dir) {
  const std::string path = run_dir + "/plan.json";
  const bool found = co_await there(rt, path);
  if (!found) co_return std::shared_ptr<const plan::Plan>();
  Result<Bytes> bytes = co_await rt.files().read(path);
  if (!bytes.ok()) co_return bytes.status();
  TR_CO_ASSIGN_OR_RETURN(const Json json, parse_json(as_text(*bytes), path));
  Result<plan::Plan> plan = plan::plan_from_json(json);
  if (!plan.ok()) co_return plan.status().with_prefix(path + ": ");
  co_return std::shared_ptr<const plan::Plan>(std::make_shared<plan::Plan>(std::move(*plan)));
}

struct Weights {
  std::string path;
  std::int64_t step = -1;
  Json state;  // of a checkpoint; null: a bare file
  std::shared_ptr<io::StoredTensors> files;
};

using Files = Result<std::shared_ptr<io::StoredTensors>>;

// What whoever started this rank has verified is not read a second time for its hashes.
Task<Files> open_as_verified(Runtime& rt, std::string path) {
  Files files = co_await io::StoredTensors::open(rt, std::move(path));
  if (files.ok()) (*files)->take_as_verified();
  co_return files;
}

// A function of its own, as are those below: GCC 12 makes both sides of a conditional inside a coroutine.
Task<Files> open_files(Runtime& rt, const ModelSource& source, std::string path) {
  return source.verified.empty() ? io::open_verified(rt, std::move(path))
                                 : open_as_verified(rt, source.verified);
}
Task<Files> open_newest(Runtime& rt, const ModelSource& source, std::string folder) {
  return source.verified.empty() ? io::open_newest_verified(rt, std::move(folder))
                                 : open_as_verified(rt, source.verified);
}

// The newest checkpoint knows which evaluation was the best.
Task<Result<Weights>> read_best(Runtime& rt, const ModelSource& source, std::string path, LoadedModel& out) {
  const Result<io::CheckpointInfo> info = co_await io::describe_checkpoint(rt, path);
  if (!info.ok()) co_return info.status();
  record::Best best;
  if (info->manifest.state.is_object() && info->manifest.state.contains("best")) {
    TR_CO_ASSIGN_OR_RETURN(best, record::best_from_json(info->manifest.state["best"]));
  }
  if (best.step < 0)
    co_return error(Code::kNotFound,
                    "[model] --best: {} knows of no best checkpoint; it is kept from the first evaluation on "
                    "(train.eval_steps, train.keep_best)",
                    path);
  const std::string folder = info->path.substr(0, info->path.rfind('/'));
  Weights weights;
  weights.path = folder + "/" + io::generation_name(best.step);
  auto found = co_await open_files(rt, source, weights.path);
  if (!found.ok()) co_return found.status().with_prefix("[model] --best: ");
  weights.files = std::move(*found);
  weights.step = weights.files->info().manifest.step;
  weights.state = weights.files->info().manifest.state;
  out.notes.push_back(fmt::format("the best model, after step {}: {} loss {:.4f}, accuracy {:.2f} %",
                                  best.step, engine::part_name(best.part), best.loss, 100 * best.accuracy));
  co_return weights;
}

Task<Result<Weights>> read_weights(Runtime& rt, const ModelSource& source, std::string path) {
  Weights out;
  const std::string folder = path + "/checkpoints";
  const bool has_folder = co_await there(rt, folder);
  const bool has_job = co_await there(rt, path + "/job.toml");
  if (has_folder || has_job) {
    auto newest = co_await open_newest(rt, source, folder);
    if (!newest.ok() && newest.status().code() == Code::kNotFound)
      co_return error(Code::kNotFound,
                      "[model] {} has no whole checkpoint; the first one is written after an epoch (or "
                      "train.checkpoint_steps) and at the end: train it further",
                      path);
    if (!newest.ok()) co_return newest.status();
    out.path = folder;
    out.files = std::move(*newest);
    out.step = out.files->info().manifest.step;
    out.state = out.files->info().manifest.state;
    co_return out;
  }
  const Result<io::CheckpointInfo> info = co_await io::describe_checkpoint(rt, path);
  if (!info.ok() && info.status().code() == Code::kNotFound)
    co_return Status(Code::kInvalid, info.status().message());
  if (!info.ok()) co_return info.status();
  auto files = co_await open_files(rt, source, path);
  if (!files.ok()) co_return files.status();
  out.path = info->path;
  if (info->is_generation) out.step = info->manifest.step, out.state = info->manifest.state;
  out.files = std::move(*files);
  co_return out;
}

Status check_fits(const graph::Graph& graph, const OpenedModel& opened) {
  std::string missing, other;
  for (const auto& [name, value] : graph.variables()) {
    const TensorType& type = graph.type(value);
    const std::optional<TensorType> stored = opened.files->type_of(name);
    if (!stored) {
      missing += fmt::format("{}'{}'", missing.empty() ? "" : ", ", name);
      continue;
    }
    if (*stored != type)
      other += fmt::format("{}'{}' is {} and should be {}", other.empty() ? "" : ", ", name,
                           stored->to_string(), type.to_string());
  }
  if (missing.empty() && other.empty()) return {};
  if (!missing.empty()) missing = "it lacks " + missing + (other.empty() ? "" : ", and ");
  return error(Code::kInvalid, "[model] {} does not fit the job's model: {}{}; is it of another job?",
               opened.model.weights_path, missing, other);
}

// Reads what the graph does: the optimiser's state stays in the files.
Task<Status> take_variables(const graph::Graph& graph, const OpenedModel& opened, exec::Variables& out) {
  TR_CO_RETURN_IF_ERROR(check_fits(graph, opened));
  for (const auto& [name, value] : graph.variables()) {
    const TensorType& type = graph.type(value);
    TR_CO_ASSIGN_OR_RETURN(const Tensor copy, allocate_zeros(cpu_device(), type));
    TR_CO_RETURN_IF_ERROR(co_await opened.files->read(parallel::Piece::of_whole(name, type), copy));
    TR_CO_RETURN_IF_ERROR(out.add(name, copy));
  }
  co_return Status();
}

// The ranks read the files that the first one has open; one that has others open would mix two models.
Task<Result<engine::StoredState>> share_files(Runtime& rt, ModelPart& part, const OpenedModel& opened) {
  TR_CO_ASSIGN_OR_RETURN(const Json first,
                         co_await part.told(engine::describe_stored(*opened.files), "checkpoint"));
  TR_CO_ASSIGN_OR_RETURN(engine::StoredHead head, engine::stored_head_from_json(first));
  if (opened.files->content_sha256() != head.content_sha256)
    co_return error(Code::kCorrupt, "[model] {} is not what the first rank reads from {}; try again",
                    opened.files->info().path, head.path);
  const std::string path = head.path;
  co_return co_await engine::share_stored(rt, part.group(), std::move(head), path, opened.files);
}

// The same on a rank of a mesh: its part.
Task<Status> take_part(Runtime& rt, const graph::Graph& graph, const OpenedModel& opened, ModelPart& part,
                       exec::Variables& out) {
  TR_CO_RETURN_IF_ERROR(check_fits(graph, opened));
  std::map<std::string, TensorType> wholes;
  std::map<std::string, Tensor> memory;
  for (const auto& [name, value] : graph.variables()) {
    const TensorType& whole = wholes.emplace(name, graph.type(value)).first->second;
    TR_CO_ASSIGN_OR_RETURN(const Tensor own, allocate_zeros(cpu_device(), part.part_type(name, whole)));
    if (part.has(name)) TR_CO_RETURN_IF_ERROR(out.add(name, own));
    memory.emplace(name, own);
  }
  TR_CO_ASSIGN_OR_RETURN(const engine::StoredState stored, co_await share_files(rt, part, opened));
  TR_CO_ASSIGN_OR_RETURN(const engine::HeldState held, part.held(wholes, memory));
  co_return co_await engine::restore_pieces(rt, part.group(), stored, held, {plan::kSlotRestore, 0, "read"});
}

Status data_hint(const Status& status, const job::Job& job) {
  if (status.code() != Code::kNotFound || job.data.path.empty()) return status;
  return error(Code::kNotFound,
               "{}; the job says data.path = \"{}\": run in the folder where it was trained, or give "
               "--data.path PATH",
               status.message(), job.data.path);
}

// Classes, vocabulary and normalization of bare files and older checkpoints come from the training samples.
void note_other_samples(LoadedModel& out, const std::vector<std::string>& sets) {
  for (const std::string& set : sets) {
    const std::string key = set.substr(0, set.find('='));
    if (key == "data.path" || key == "data.limit_test" || key == "data.prefetch") continue;
    out.notes.push_back(
        fmt::format("{} may change the training samples, by which classes and normalization are known", key));
  }
}

bool sets_key(const ModelSource& source, std::string_view key) {
  return std::any_of(source.sets.begin(), source.sets.end(),
                     [&](const std::string& set) { return set.substr(0, set.find('=')) == key; });
}

// A relative path is that of the folder where it was trained.
Task<void> find_data(Runtime& rt, const ModelSource& source, const job::TrainedOn& trained,
                     LoadedModel& out) {
  std::string& path = out.job.data.path;
  if (path.empty() || trained.path.empty() || sets_key(source, "data.path")) co_return;
  const bool here = co_await there(rt, path);
  if (here) co_return;
  const bool recorded = co_await there(rt, trained.path);
  if (!recorded) co_return;
  out.notes.push_back(fmt::format("there is no {} here; the data is read from {}, where it was for training",
                                  path, trained.path));
  path = trained.path;
}

// Data that was named for this command may be other data; what the job names is expected to be the same.
void note_change(const ModelSource& source, const job::TrainedOn& trained, LoadedModel& out) {
  if (sets_key(source, "data.path") || sets_key(source, "data.kind")) return;
  const std::string change = job::data_change(trained, *out.data);
  if (change.empty()) return;
  out.notes.push_back(
      fmt::format("{} has changed since training ({}); parts may have moved, so that samples of training are "
                  "among those of test",
                  out.data->source, change));
}

Task<Status> take_data(Runtime& rt, const ModelSource& source, const Weights& weights, LoadedModel& out) {
  std::optional<job::TrainedOn> trained;
  if (weights.state.is_object() && weights.state.contains("data")) {
    Result<job::TrainedOn> kept = job::data_from_record(weights.state["data"]);
    if (!kept.ok()) co_return kept.status().with_prefix(weights.path + ": ");
    trained = std::move(*kept);
  }
  const bool language = job::task_of(out.job) == model::ModelTask::kLanguage;
  if (trained && !(language ? source.needs_text : source.needs_samples)) {
    out.data = trained->data;
  } else {
    if (trained) co_await find_data(rt, source, *trained, out);
    auto data = co_await data::make_dataset(rt, job::data_spec(out.job, source.cache_dir));
    if (!data.ok()) co_return data_hint(data.status(), out.job);
    out.data = std::move(*data);
    if (trained) {
      note_change(source, *trained, out);
      TR_CO_ASSIGN_OR_RETURN(out.data, job::as_trained(out.data, *trained->data));
    } else {
      note_other_samples(out, source.sets);
    }
  }
  TR_CO_ASSIGN_OR_RETURN(out.input, job::model_input(out.job, *out.data));
  co_return Status();
}

void note_progress(LoadedModel& out, bool from_run, const std::string& path) {
  if (!from_run || out.step < 0) return;
  if (out.last_step < 0)
    out.notes.push_back(fmt::format("{} is unfinished; this is the model after step {}", path, out.step));
  else if (out.step != out.last_step)
    out.notes.push_back(
        fmt::format("this is the model after step {} of {}, not the last one", out.step, out.last_step));
}

bool is_of_gpu(const LoadedModel& model) {
  return model.plan != nullptr && model.plan->kernel_library.starts_with("cuda=");
}

// A model of a GPU is judged there where it can be: losses then have the bits of training.
Task<Status> take_device(Runtime& rt, const ModelSource& source, LoadedModel& out) {
  std::string wanted = source.device;
  if (!wanted.empty() && wanted != "cpu" && wanted != "cuda" && wanted != "auto")
    co_return error(Code::kInvalid, "[model] --device: got '{}', expected cpu, cuda or auto", wanted);
  const bool asked = !wanted.empty();
  if (!asked) wanted = is_of_gpu(out) ? "cuda" : "cpu";
  auto device = co_await lower::open_device(rt, wanted, source.local_rank);
  if (!device.ok() && asked) co_return device.status();
  if (!device.ok())
    out.notes.push_back(
        fmt::format("it was trained on a GPU and runs on the host here, where results differ by rounding: {}",
                    device.status().message()));
  if (!device.ok() || *device == nullptr) co_return Status();
  out.device = std::move(*device);
  out.mirror = std::make_shared<exec::DeviceMirror>(out.device);
  for (const std::string& name : out.variables->names()) {
    const Tensor variable = *out.variables->get(name);
    TR_CO_RETURN_IF_ERROR(out.mirror->add(variable));
  }
  co_return out.mirror->upload_all();
}

}  // namespace

int LoadedModel::slots(const Runtime& rt) const {
  return device != nullptr ? 1 : std::max(1, rt.compute_threads() / std::max(1, threads));
}

Task<Result<OpenedModel>> open_model(Runtime& rt, ModelSource source) {
  OpenedModel opened;
  LoadedModel& out = opened.model;
  TR_CO_ASSIGN_OR_RETURN(out.job, co_await read_job_of(rt, source));
  const bool is_run = co_await there(rt, source.path + "/job.toml");
  if (is_run) {
    out.last_step = co_await finished_steps(rt, source.path);
    TR_CO_ASSIGN_OR_RETURN(out.plan, co_await read_plan(rt, source.path));
  }
  const std::string& from = source.checkpoint.empty() ? source.path : source.checkpoint;
  Result<Weights> weights = Status(Code::kInternal, "[model] nothing was read");
  if (source.best)
    weights = co_await read_best(rt, source, from, out);
  else
    weights = co_await read_weights(rt, source, from);
  if (!weights.ok()) co_return weights.status();
  out.weights_path = weights->path;
  out.step = weights->step;
  if (!source.best) note_progress(out, is_run, source.path);
  TR_CO_RETURN_IF_ERROR(co_await take_data(rt, source, *weights, out));
  out.threads = out.plan != nullptr ? out.plan->shard_threads : rt.compute_threads();
  opened.files = std::move(weights->files);
  opened.source = std::move(source);
  co_return opened;
}

namespace {

void name_parameters(model::ModelGraphs graphs, LoadedModel& out) {
  out.parameters = std::move(graphs.parameters);
  out.parameters.insert(out.parameters.end(), graphs.frozen.begin(), graphs.frozen.end());
}

}  // namespace

Task<Result<LoadedModel>> read_model(Runtime& rt, OpenedModel opened) {
  LoadedModel& out = opened.model;
  TR_CO_ASSIGN_OR_RETURN(model::ModelGraphs graphs, job::build_job_model(out.job, out.input, 1));
  out.variables = std::make_unique<exec::Variables>();
  TR_CO_RETURN_IF_ERROR(co_await take_variables(graphs.eval, opened, *out.variables));
  name_parameters(std::move(graphs), out);
  TR_CO_RETURN_IF_ERROR(co_await take_device(rt, opened.source, out));
  co_return std::move(out);
}

Task<Result<LoadedModel>> load_model(Runtime& rt, ModelSource source) {
  Result<OpenedModel> opened = co_await open_model(rt, std::move(source));
  if (!opened.ok()) co_return opened.status();
  co_return co_await read_model(rt, std::move(*opened));
}

Status check_cut(const LoadedModel& model, const parallel::Mesh& mesh) {
  prepare::ForwardTiles over;
  over.tiles = mesh.size_of(parallel::kModelAxis);
  const int stages = mesh.size_of(parallel::kStageAxis);
  if (over.tiles == 1 && stages == 1) return {};
  TR_ASSIGN_OR_RETURN(const model::ModelGraphs graphs,
                      job::build_job_model(model.job, model.input, job::eval_batch_of(model.job)));
  TR_RETURN_IF_ERROR(prepare::choose_forward_stages(graphs.eval, model.plan.get(), stages).status());
  if (over.tiles == 1) return {};
  return prepare::choose_forward_cuts(model.job, graphs.eval, model.plan.get(), over).status();
}

Task<Result<LoadedModel>> read_model_part(Runtime& rt, OpenedModel opened, comm::Group& group,
                                          parallel::Mesh mesh) {
  LoadedModel& out = opened.model;
  TR_CO_ASSIGN_OR_RETURN(out.part, ModelPart::make(rt, group, mesh));
  TR_CO_ASSIGN_OR_RETURN(model::ModelGraphs graphs,
                         job::build_job_model(out.job, out.input, job::eval_batch_of(out.job)));
  TR_CO_RETURN_IF_ERROR(co_await out.part->choose_cuts(out.job, graphs.eval, out.plan.get()));
  out.variables = std::make_unique<exec::Variables>();
  TR_CO_RETURN_IF_ERROR(co_await take_part(rt, graphs.eval, opened, *out.part, *out.variables));
  name_parameters(std::move(graphs), out);
  TR_CO_RETURN_IF_ERROR(co_await take_device(rt, opened.source, out));
  co_return std::move(out);
}

namespace {

using Compiled = std::shared_ptr<const exec::CompiledGraph>;

Result<Compiled> compile_for(const LoadedModel& model, const graph::Graph& own,
                             std::vector<std::string> outputs) {
  graph::Graph graph = own;
  if (model.device != nullptr) {
    TR_ASSIGN_OR_RETURN(graph, lower::faster_graph({model.job.train.precision, model.device.get()}, own));
  }
  exec::CompileOptions options;
  options.fetches = std::move(outputs);
  options.width = model.threads;
  options.device = model.device;
  options.tf32 = model.job.train.precision == "tf32";
  if (model.plan != nullptr && is_of_gpu(model) == (model.device != nullptr)) {
    exec::CompileOptions as_planned = options;
    as_planned.kernels = model.plan->kernels;
    auto compiled = exec::compile(graph, std::move(as_planned));
    if (compiled.ok()) return compiled;
  }
  return exec::compile(graph, std::move(options));
}

}  // namespace

Task<Result<Compiled>> compile_forward(Runtime& rt, const LoadedModel& model, std::int64_t batch,
                                       std::vector<std::string> outputs) {
  TR_CO_ASSIGN_OR_RETURN(const model::ModelGraphs graphs,
                         job::build_job_model(model.job, model.input, batch));
  if (model.part == nullptr) co_return compile_for(model, graphs.eval, std::move(outputs));
  TR_CO_ASSIGN_OR_RETURN(graph::Graph asked, prepare::forward_graph(graphs.eval, outputs));
  TR_CO_ASSIGN_OR_RETURN(const graph::Graph own,
                         co_await model.part->part_of(std::move(asked), model.plan.get()));
  // On the pool it does not hold up the heartbeats of the loop.
  Result<Compiled> out = Compiled();
  if (model.part->num_stages() > 1) {  // some of them, and messages
    outputs.clear();
    for (const auto& [name, v] : own.outputs())
      if (!name.starts_with("over:")) outputs.push_back(name);
  }
  runtime::ComputeFn compile = [&](runtime::ComputeContext&) { out = compile_for(model, own, outputs); };
  const cost::OpCost work{.flops = 1e8, .bytes = 1e7};
  co_await rt.compute(work, std::move(compile), 1, "compile");
  co_return out;
}

Result<std::unique_ptr<engine::Evaluator>> make_evaluator(Runtime& rt, const LoadedModel& model,
                                                          std::shared_ptr<const data::Dataset> data,
                                                          Compiled graph, std::int64_t batch) {
  engine::EvaluatorOptions options;
  options.input = model.input;
  options.graph = std::move(graph);
  options.batch = batch;
  options.variables = model.variables.get();
  options.data = std::move(data);
  options.slots = model.slots(rt);
  options.mirror = model.mirror.get();
  if (model.part != nullptr) {
    options.tile = model.part->tile();
    options.host_ops = model.part->host_ops();
  }
  return engine::Evaluator::make(rt, std::move(options));
}

}  // namespace trireme::apply
