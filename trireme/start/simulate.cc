#include "trireme/start/simulate.h"

#include <algorithm>

#include "trireme/job/assume_input.h"
#include "trireme/job/job_parts.h"
#include "trireme/job/roles.h"
#include "trireme/prepare/prepare.h"

namespace trireme::start {
namespace {

runtime::Task<void> run_rank(train::RankContext context, Result<record::Summary>* out, TimeNs* ended_at) {
  runtime::Runtime& rt = *context.rt;
  *out = co_await train::train_rank(std::move(context));
  *ended_at = rt.now();
}

// Ranks of one machine divide its cores, as a launcher's do.
int threads_of(const SimulateOptions& options) {
  return std::max(1, options.machine.cores / options.ranks_per_machine);
}

// Machines of a cluster may differ in speed; the others are taken to be as options.machine.
std::shared_ptr<const cost::Rates> rates_of(const SimulateOptions& options) {
  auto rates = std::make_shared<cost::Rates>();
  rates->machine = options.machine;
  rates->comm = cost::CommModel(options.link, options.machine);
  const auto workers = static_cast<std::size_t>(options.job.parallel.workers);
  const std::vector<cost::MachineModel>& machines = options.cluster.topology.machines;
  for (std::size_t w = 0; w < workers && !machines.empty(); ++w) {
    const cost::MachineModel& own =
        machines[static_cast<std::size_t>(machine_of(options, static_cast<int>(w)))];
    rates->speeds.push_back(own.speed * own.flops_per_second_per_core /
                            (options.machine.speed * options.machine.flops_per_second_per_core));
  }
  return rates;
}

// Ranks of a phantom cluster share one compiled plan, by their place in a replica: a thousand copies would
// not fit.
using PreparedPlaces = std::vector<std::shared_ptr<const prepare::Prepared>>;
Result<PreparedPlaces> prepare_shared(const SimulateOptions& options, const data::Dataset& data) {
  const parallel::Mesh mesh = job::roles_of(options.job).mesh;
  prepare::PrepareOptions prepare_options;
  prepare_options.replicas = mesh.num_replicas();
  prepare_options.tiles = job::tiles_of(options.job);
  prepare_options.stages = job::stages_of(options.job);
  prepare_options.compute_threads = threads_of(options);
  prepare_options.transport = "inproc";
  prepare_options.machine = options.machine;
  prepare_options.link = options.link;
  prepare_options.rates = rates_of(options);
  TR_ASSIGN_OR_RETURN(const model::ModelInput input, job::model_input(options.job, data));
  PreparedPlaces places;
  for (int place = 0; place < prepare_options.stages * prepare_options.tiles; ++place) {
    prepare_options.stage = place / prepare_options.tiles;
    prepare_options.tile = place % prepare_options.tiles;
    TR_ASSIGN_OR_RETURN(auto prepared, prepare::prepare(options.job, input, prepare_options));
    if (place == 0) prepare_options.fixed = std::make_shared<const plan::Plan>(prepared->whole_plan());
    if (prepared->stages != nullptr) prepare_options.like = prepared;
    places.push_back(std::move(prepared));
  }
  return places;
}

// Ranks of a phantom cluster cannot tell each other what they measured.
void tell_stages(std::vector<Result<record::Summary>>& ranks) {
  std::vector<record::StageShare> shares;
  for (const Result<record::Summary>& rank : ranks)
    if (rank.ok() && rank->pipeline) shares.push_back(rank->pipeline->own);
  if (shares.size() != ranks.size()) return;
  for (Result<record::Summary>& rank : ranks) take_stages(shares, *rank->pipeline);
}

}  // namespace

Result<std::shared_ptr<const data::Dataset>> phantom_data(const job::Job& job, std::int64_t num_train) {
  TR_ASSIGN_OR_RETURN(const job::AssumedInput assumed, job::assume_input(job, "", 0));
  auto set = std::make_shared<data::Dataset>();
  set->name = job.data.kind;
  set->source = assumed.from;
  set->sample_shape = assumed.input.sample_shape;
  set->num_classes = assumed.input.num_classes;
  set->num_train = num_train;
  if (assumed.input.task == model::ModelTask::kLanguage)
    set->dtype = DType::kI32, set->label_kind = data::Labels::kNext;
  return std::shared_ptr<const data::Dataset>(std::move(set));
}

int machine_of(const SimulateOptions& options, int rank) {
  const int workers = job::roles_of(options.job).workers, each = options.ranks_per_machine;
  return rank < workers ? rank / each : (workers - 1) / each + 1 + rank - workers;
}

int num_machines(const SimulateOptions& options) {
  return machine_of(options, job::roles_of(options.job).world - 1) + 1;
}

SimulateReport simulate_training(const SimulateOptions& given, std::shared_ptr<const data::Dataset> data) {
  SimulateOptions options = given;
  if (options.ranks_per_machine > 1 && options.job.train.shard_threads == 0)
    options.job.train.shard_threads = threads_of(options);
  const job::Roles roles = job::roles_of(options.job);
  const int world = roles.world;
  const auto n = static_cast<std::size_t>(world);
  SimulateReport report;
  report.ranks.assign(n, Status(Code::kPeerLost, "[simulate] the rank was killed or never ended"));
  report.ended_at.assign(n, -1);
  report.sends.resize(n);
  if (data == nullptr) {
    auto phantom = phantom_data(options.job,
                                options.job.train.batch * std::max<std::int64_t>(1, options.job.train.steps));
    if (!phantom.ok()) {
      report.ranks.assign(n, phantom.status());
      return report;
    }
    data = std::move(*phantom);
  }
  PreparedPlaces prepared;
  if (options.phantom) {
    auto shared = prepare_shared(options, *data);
    if (!shared.ok()) {
      report.ranks.assign(n, shared.status());
      return report;
    }
    prepared = std::move(*shared);
  }
  runtime::WorldSpec spec = options.cluster;
  if (spec.topology.machines.empty())
    spec.topology = cost::Topology::single_switch(num_machines(options), options.machine, options.link);
  spec.phantom = options.phantom;
  spec.seed = options.seed;
  spec.latency_jitter = options.latency_jitter;
  spec.faults = options.faults;
  const auto virtual_world = runtime::make_virtual_world(spec);
  const auto rates = rates_of(options);
  for (int rank = 0; rank < world; ++rank) {
    const auto at = static_cast<std::size_t>(rank);
    runtime::Runtime& rt =
        virtual_world->add_runtime(machine_of(options, rank), fmt::format("rank {}", rank));
    train::RankContext context;
    context.rt = &rt;
    context.job = options.job;
    context.connect.rank = rank;
    context.connect.world = world;
    context.run_dir = options.run_dir;
    context.data = data;
    context.prepared = prepared;
    context.machine = options.machine;
    context.link = options.link;
    context.rates = rates;
    if (options.record_sends) context.send_log = &report.sends[at];
    virtual_world->start(rt, run_rank(std::move(context), &report.ranks[at], &report.ended_at[at]));
  }
  report.world = virtual_world->run(options.time_limit);
  if (options.phantom) tell_stages(report.ranks);
  return report;
}

}  // namespace trireme::start
