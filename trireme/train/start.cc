#include "trireme/train/start.h"

#include <algorithm>

#include "trireme/engine/share_text.h"
#include "trireme/io/generation.h"
#include "trireme/io/reader.h"
#include "trireme/job/data_record.h"
#include "trireme/job/job_options.h"
#include "trireme/job/job_parts.h"
#include "trireme/job/roles.h"
#include "trireme/kernel/cuda/cuda.h"
#include "trireme/lower/open_device.h"
#include "trireme/plan/slots.h"
#include "trireme/prepare/laid_out.h"
#include "trireme/prepare/measured_kernels.h"
#include "trireme/prepare/memory_estimate.h"
#include "trireme/prepare/prepare.h"
#include "trireme/train/balance.h"

namespace trireme::train {
using runtime::Task;

namespace {

// Rates of a worker whose GPU computes, by the GPU's own figures and what kernels reach of them on long
// steps. What goes between workers is as the host has it.
std::shared_ptr<const cost::Rates> gpu_rates(const RankContext& c) {
  constexpr double kOfFlops = 0.7, kOfBytes = 0.75;
  constexpr TimeNs kLaunch = kMicro;
  const kernel::cuda::CudaDevice* const gpu = kernel::cuda::as_cuda(c.device.get());
  if (gpu == nullptr) return c.rates;
  const kernel::cuda::PeakRates peak = kernel::cuda::peak_rates(*gpu, c.job.train.precision);
  if (peak.flops_per_second <= 0 || peak.bytes_per_second <= 0) return c.rates;
  auto rates = std::make_shared<cost::Rates>();
  if (c.rates != nullptr) {
    *rates = *c.rates;
  } else {
    rates->comm = cost::CommModel(c.link, c.machine);
  }
  rates->op_times = nullptr;  // of the host
  rates->machine = {.name = c.device->name(),
                    .cores = 1,
                    .flops_per_second_per_core = kOfFlops * peak.flops_per_second,
                    .bytes_per_second = kOfBytes * peak.bytes_per_second,
                    .op_overhead_ns = kLaunch};
  return rates;
}

}  // namespace

std::size_t place_in_replica(const prepare::PrepareOptions& options) {
  return static_cast<std::size_t>(options.stage * options.tiles + options.tile);
}

prepare::PrepareOptions prepare_options(const RankContext& c, const comm::Group& group) {
  prepare::PrepareOptions options;
  const parallel::Mesh mesh = job::roles_of(c.job).mesh;
  options.replicas = mesh.num_replicas();
  options.tiles = job::tiles_of(c.job);
  options.stages = mesh.size_of(parallel::kStageAxis);
  if (group.rank() < mesh.num_ranks()) {
    options.tile = mesh.coordinate(group.rank(), parallel::kModelAxis);
    options.stage = mesh.coordinate(group.rank(), parallel::kStageAxis);
  }
  options.compute_threads = c.rt->compute_threads();
  options.transport = group.world() > 1 ? c.transport : "none";
  options.several_ranks = !c.workers.empty();
  options.machine = c.machine;
  options.link = c.link;
  options.rates = gpu_rates(c);
  options.device = c.device;
  if (c.data != nullptr) options.data_sha256 = c.data->content_sha256;
  return options;
}

Task<Result<std::shared_ptr<const prepare::Prepared>>> prepare_on_pool(
    runtime::Runtime& rt, const job::Job& job, const data::Dataset& data,
    const prepare::PrepareOptions& options) {
  Result<std::shared_ptr<const prepare::Prepared>> out =
      Status(Code::kInternal, "[train] a phantom rank cannot prepare a plan");
  const cost::OpCost work{.flops = 1e8, .bytes = 1e7};
  TR_CO_ASSIGN_OR_RETURN(const model::ModelInput input, job::model_input(job, data));
  co_await rt.compute(
      work, [&](runtime::ComputeContext&) { out = prepare::prepare(job, input, options); }, 1, "prepare");
  co_return out;
}

namespace {

// Whether stages have segments to choose from, and nobody has said how fast the ranks are. What a pipeline
// that never drains learns depends on which stage has a segment, and must not depend on a clock.
bool wants_speeds(const RankContext& c) {
  const auto chain = job::stages_of(c.job) * c.job.options.integer(job::kVirtualStages);
  const bool known = c.rates != nullptr && !c.rates->speeds.empty();
  return job::stages_of(c.job) > 1 && job::segments_of(c.job) > chain && !known && !c.rt->is_phantom() &&
         c.prepared.empty() && !job::overlaps_steps(c.job);
}

Task<Status> learn_speeds(RankContext& c, comm::Group& group) {
  if (!wants_speeds(c)) co_return Status();
  TR_CO_ASSIGN_OR_RETURN(std::vector<double> speeds, co_await measure_speeds(*c.rt, group));
  if (speeds.empty()) co_return Status();
  auto rates = std::make_shared<cost::Rates>();
  if (c.rates != nullptr) {
    *rates = *c.rates;
  } else {
    rates->machine = c.machine;
    rates->comm = cost::CommModel(c.link, c.machine);
  }
  rates->speeds = std::move(speeds);
  c.rates = std::move(rates);
  co_return Status();
}

// What a plan weighs on a phantom Runtime, where it is prepared beforehand and only its size travels.
constexpr std::size_t kPhantomPlanBytes = 4096;

// The GPU that the job asks for. In virtual time costs are all there is: no GPU.
Task<Status> take_device(RankContext& c) {
  if (c.rt->is_virtual() || c.rt->is_phantom() || c.device != nullptr) co_return Status();
  TR_CO_ASSIGN_OR_RETURN(c.device, co_await lower::open_device(*c.rt, c.job.train.device, c.local_rank));
  co_return Status();
}

// A run goes on where it began: kernels and bits of the host and of a GPU differ.
Status check_place(const plan::Plan& plan, bool on_gpu) {
  const bool of_gpu = plan.kernel_library.starts_with("cuda=");
  if (of_gpu == on_gpu) return {};
  const auto text = [](bool gpu) { return gpu ? "on a GPU" : "on the host"; };
  return error(
      Code::kInvalid,
      "[plan] the plan of this run was made {} ({}), and this start would train {}; resume it with --device "
      "{}, or use a new run folder",
      text(of_gpu), plan.kernel_library, text(on_gpu), of_gpu ? "cuda" : "cpu");
}

// A run goes on with the data that it began with: other samples would make another model, and the split of a
// table with more rows moves trained samples to the test part.
Task<Status> check_data(const RankContext& c, const plan::Plan& plan) {
  std::string change = job::data_change(plan.data_sha256, *c.data);
  if (change.empty()) co_return Status();
  const Result<io::CheckpointInfo> info = co_await io::describe_checkpoint(*c.rt, c.run_dir);
  if (info.ok() && info->manifest.state.contains("data"))
    if (const Result<job::TrainedOn> trained = job::data_from_record(info->manifest.state["data"]);
        trained.ok())
      if (std::string more = job::data_change(*trained, *c.data); !more.empty()) change = std::move(more);
  co_return error(Code::kInvalid,
                  "[data] {} has changed since the run in {} began ({}); put the old data back, or train the "
                  "model on with the new data in a new folder: --run-dir NEW --set model.init_from={}",
                  c.data->source, c.run_dir, change, c.run_dir);
}

// Early stopping needs something to evaluate.
Status check_patience(const RankContext& c) {
  if (!c.job.train.patience || c.data->num_validation > 0 || c.data->num_test > 0) return {};
  return error(Code::kInvalid,
               "[job] train.patience: {} has no validation and no test samples to evaluate; set "
               "data.validation, like 0.1",
               c.data->source);
}

// Ranks of other hosts read files of their own.
Status check_same_data(const RankContext& c, const plan::Plan& plan, int rank) {
  const std::string change = job::data_change(plan.data_sha256, *c.data);
  if (change.empty()) return {};
  return error(Code::kInvalid,
               "[data] rank {}: {} is not the data that rank 0 has ({}); copy it to every host", rank,
               c.data->source, change);
}

// A plan whose memory the GPU has not is refused before anything is allocated.
Task<Status> settle_device(const RankContext& c, const prepare::Prepared& prepared) {
  if (c.device != nullptr && c.local_rank == 0) co_await lower::keep_texts(*c.rt);
  co_return prepare::check_gpu_memory(c.job, prepared);
}

// A plan that nobody made before: the kernels that are fastest here are part of it.
Task<Result<std::shared_ptr<const prepare::Prepared>>> prepare_anew(const RankContext& c,
                                                                    prepare::PrepareOptions options) {
  Result<std::shared_ptr<const prepare::Prepared>> first =
      co_await prepare_on_pool(*c.rt, c.job, *c.data, options);
  const bool may_measure = c.kernel_cache && prepare::may_measure_kernels(c.job, *c.rt);
  if (!first.ok() || !may_measure || (*first)->stages != nullptr) co_return first;
  TR_CO_ASSIGN_OR_RETURN(plan::Plan plan,
                         co_await prepare::with_measured_kernels(*c.rt, *first, *c.kernel_cache));
  if (plan.kernels == (*first)->plan.kernels) co_return first;
  options.fixed = std::make_shared<const plan::Plan>(std::move(plan));
  co_return co_await prepare_on_pool(*c.rt, c.job, *c.data, options);
}

// Rank 0: the plan of an earlier start, if there is one, and the newest checkpoint.
Task<Result<StartState>> start_on_chief(RankContext& c, comm::Group& group) {
  StartState state;
  TR_CO_RETURN_IF_ERROR(check_patience(c));
  const std::string& data_path = c.job.data.path;
  if (!c.run_dir.empty())
    state.data = job::data_record(*c.data, c.job, data_path.empty() ? "" : c.rt->files().absolute(data_path));
  TR_CO_RETURN_IF_ERROR(co_await take_device(c));
  prepare::PrepareOptions options = prepare_options(c, group);
  const std::string plan_path = c.run_dir + "/plan.json";
  if (!c.run_dir.empty()) {
    Result<Bytes> bytes = co_await c.rt->files().read(plan_path);
    if (bytes.ok()) {
      TR_CO_ASSIGN_OR_RETURN(const Json json, parse_json(as_text(*bytes), plan_path));
      TR_CO_ASSIGN_OR_RETURN(plan::Plan plan, plan::plan_from_json(json));
      if (!c.rt->is_virtual()) TR_CO_RETURN_IF_ERROR(check_place(plan, c.device != nullptr));
      TR_CO_RETURN_IF_ERROR(co_await check_data(c, plan));
      options.fixed = std::make_shared<const plan::Plan>(std::move(plan));
    } else if (bytes.status().code() != Code::kNotFound) {
      co_return bytes.status();
    }
  }
  if (!c.prepared.empty()) {
    state.prepared = c.prepared[place_in_replica(options)];
  } else if (options.fixed != nullptr) {
    TR_CO_ASSIGN_OR_RETURN(state.prepared, co_await prepare_on_pool(*c.rt, c.job, *c.data, options));
  } else {
    TR_CO_ASSIGN_OR_RETURN(state.prepared, co_await prepare_anew(c, options));
  }
  TR_CO_RETURN_IF_ERROR(co_await settle_device(c, *state.prepared));
  if (!c.run_dir.empty()) {
    const std::string text = plan::to_json(state.prepared->whole_plan()).dump(2) + "\n";
    TR_CO_RETURN_IF_ERROR(co_await c.rt->files().write_atomic(plan_path, as_bytes(text)));
  }
  if (options.fixed != nullptr) {
    auto found = co_await io::open_newest_verified(*c.rt, c.run_dir + "/checkpoints");
    if (found.ok()) {
      const Json& saved = (*found)->info().manifest.state;
      state.resumed = true;
      TR_CO_ASSIGN_OR_RETURN(state.at, record::position_from_json(saved));
      TR_CO_ASSIGN_OR_RETURN(state.cursor, json_get<Json>(saved, "cursor"));
      state.stored.files = std::move(*found);
      co_return state;
    }
    if (found.status().code() != Code::kNotFound) co_return found.status();
  }
  const std::string& from = c.job.model.init_from;
  if (from.empty() || c.rt->is_phantom()) co_return state;
  auto source = co_await io::open_verified(*c.rt, from);
  if (!source.ok())
    co_return Status(Code::kInvalid, fmt::format("[job] model.init_from: {}", source.status().message()));
  state.stored.files = std::move(*source);
  co_return state;
}

// Who sees what rank 0 has opened. `json`: what it said of it; null: there is nothing to read.
Task<Status> share_files(const RankContext& c, comm::Group& group, const Json& json, StartState& state) {
  if (json.is_null() || c.rt->is_phantom()) co_return Status();
  TR_CO_ASSIGN_OR_RETURN(engine::StoredHead head, engine::stored_head_from_json(json));
  std::string path = head.path;
  if (state.resumed) path = fmt::format("{}/checkpoints/{}", c.run_dir, io::generation_name(head.step));
  TR_CO_ASSIGN_OR_RETURN(state.stored, co_await engine::share_stored(*c.rt, group, std::move(head), path,
                                                                     std::move(state.stored.files)));
  co_return Status();
}

}  // namespace

Task<Result<StartState>> agree_on_start(RankContext& c, comm::Group& group) {
  StartState state;
  std::string text;
  Json stored;
  TR_CO_RETURN_IF_ERROR(co_await learn_speeds(c, group));
  if (group.rank() == 0) {
    Result<StartState> mine = co_await start_on_chief(c, group);
    if (!mine.ok()) co_return mine.status();
    state = std::move(*mine);
    if (state.stored.files != nullptr) stored = engine::describe_stored(*state.stored.files);
    text = Json{{"plan", plan::to_json(state.prepared->whole_plan())},
                {"resumed", state.resumed},
                {"position", to_json(state.at)},
                {"cursor", state.cursor},
                {"stored", stored}}
               .dump();
  }
  if (c.rt->is_phantom()) text.assign(kPhantomPlanBytes, ' ');
  const engine::TextCall call{.size_slot = plan::kSlotStartSize, .slot = plan::kSlotStart, .label = "plan"};
  Result<std::string> sent = co_await engine::broadcast_text(*c.rt, group, call, std::move(text));
  if (!sent.ok()) co_return sent.status();
  if (group.rank() == 0) {
    TR_CO_RETURN_IF_ERROR(co_await share_files(c, group, stored, state));
    co_return state;
  }
  if (!c.prepared.empty()) {
    state.prepared = c.prepared[place_in_replica(prepare_options(c, group))];
    if (c.rt->is_phantom()) co_return state;
  }
  TR_CO_ASSIGN_OR_RETURN(const Json json, parse_json(*sent, "the plan from rank 0"));
  TR_CO_ASSIGN_OR_RETURN(state.resumed, json_get<bool>(json, "resumed"));
  TR_CO_ASSIGN_OR_RETURN(const Json position, json_get<Json>(json, "position"));
  TR_CO_ASSIGN_OR_RETURN(state.at, record::position_from_json(position));
  TR_CO_ASSIGN_OR_RETURN(state.cursor, json_get<Json>(json, "cursor"));
  TR_CO_ASSIGN_OR_RETURN(stored, json_get<Json>(json, "stored"));
  if (state.prepared != nullptr) {
    TR_CO_RETURN_IF_ERROR(co_await share_files(c, group, stored, state));
    co_return state;
  }
  TR_CO_ASSIGN_OR_RETURN(const Json plan_json, json_get<Json>(json, "plan"));
  TR_CO_ASSIGN_OR_RETURN(plan::Plan plan, plan::plan_from_json(plan_json));
  TR_CO_RETURN_IF_ERROR(check_same_data(c, plan, group.rank()));
  TR_CO_RETURN_IF_ERROR(co_await take_device(c));
  prepare::PrepareOptions options = prepare_options(c, group);
  options.fixed = std::make_shared<const plan::Plan>(std::move(plan));
  options.owners_stand = true;
  TR_CO_ASSIGN_OR_RETURN(state.prepared, co_await prepare_on_pool(*c.rt, c.job, *c.data, options));
  TR_CO_RETURN_IF_ERROR(co_await settle_device(c, *state.prepared));
  TR_CO_RETURN_IF_ERROR(co_await share_files(c, group, stored, state));
  co_return state;
}

Task<Status> inherit_state(runtime::Runtime& rt, comm::Group& group, std::string_view from,
                           const std::vector<std::string>& names, const engine::HeldState& state,
                           const engine::StoredState& stored) {
  engine::HeldState inherited;
  inherited.all.mesh = state.all.mesh;
  inherited.rank = state.rank;
  for (std::size_t i = 0; i < state.size(); ++i) {
    const parallel::StateTensor& t = state.tensor(i);
    if (std::find(names.begin(), names.end(), t.name) == names.end()) continue;
    const std::optional<TensorType> given = stored.type_of(t.name);
    if (given != t.whole)
      co_return error(Code::kInvalid,
                      "[job] model.init_from: {} has {} under '{}', and the model wants {}; where the "
                      "models part, set model.cut_at to the first layer that differs",
                      from, given ? given->to_string() : "nothing", t.name, t.whole.to_string());
    inherited.all.tensors.push_back(t);
    inherited.own.push_back(state.own[i]);
  }
  co_return co_await engine::restore_pieces(rt, group, stored, inherited, {plan::kSlotRestore, 0, "restore"});
}

void tell_start(const RankContext& context, const prepare::Prepared& prepared, const record::Position& at,
                std::int64_t total_batches, std::int64_t batches_per_epoch) {
  if (context.progress == nullptr) return;
  record::Progress::Start start;
  start.run_dir = context.run_dir;
  start.first_batch = at.batches;
  start.first_step = at.steps;
  start.total_batches = total_batches;
  start.batches_per_epoch = batches_per_epoch;
  for (const auto* list : {&prepared.parameters, &prepared.frozen})
    for (const auto& p : *list)
      start.num_parameters += prepare::laid_out(prepared, p.name, p.type).whole.shape.num_elems();
  start.plan = &prepared.plan;
  start.task = prepared.input.task;
  context.progress->on_start(start);
}

}  // namespace trireme::train
