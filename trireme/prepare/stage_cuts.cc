#include "trireme/prepare/stage_cuts.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <utility>

#include "trireme/base/units.h"
#include "trireme/job/job_options.h"
#include "trireme/job/job_parts.h"
#include "trireme/job/roles.h"
#include "trireme/parallel/cells.h"

namespace trireme::prepare {
namespace {

using parallel::PieceRuns;
using parallel::StagePieces;
using parallel::TimetableSpec;

// Where cuts decide bits they move for what is worth it; who has which segments is free.
constexpr double kClearGain = 0.05, kSmallGain = 0.01;
// A job that tells its link is assumed to run on so many of the cores that layers are weighed by.
constexpr int kAssumedCores = 8;

// What computes and what carries messages.
struct Surroundings {
  std::optional<cost::MachineModel> machine;  // none: an assumed one
  int threads = 1;
  std::optional<cost::LinkModel> link;  // none: messages take no time
  std::vector<double> speeds;           // per virtual stage; empty: all alike
};

std::int32_t chain_of(const job::Job& job, const PrepareOptions& options) {
  if (options.stages == 1) return 1;
  return static_cast<std::int32_t>(options.stages * job.options.integer(job::kVirtualStages));
}

// Speeds of the stages along the chain: replicas are cut alike, so a stage is as fast as its slowest rank.
std::vector<double> speeds_of(const job::Job& job, const PrepareOptions& options, std::int32_t chain) {
  const parallel::Mesh mesh = job::roles_of(job).mesh;
  const bool known = options.rates != nullptr &&
                     static_cast<int>(options.rates->speeds.size()) == mesh.num_ranks() &&
                     mesh.size_of(parallel::kStageAxis) == options.stages;
  if (!known) return {};
  std::vector<double> of_stages(static_cast<std::size_t>(options.stages),
                                std::numeric_limits<double>::infinity());
  for (int rank = 0; rank < mesh.num_ranks(); ++rank) {
    double& least = of_stages[static_cast<std::size_t>(mesh.coordinate(rank, parallel::kStageAxis))];
    least = std::min(least, options.rates->speeds[static_cast<std::size_t>(rank)]);
  }
  std::vector<double> speeds;
  for (std::int32_t v = 0; v < chain; ++v)
    speeds.push_back(of_stages[static_cast<std::size_t>(v % options.stages)]);
  return speeds;
}

// What follows from the job's text.
Surroundings assumed_by(const job::Job& job) {
  Surroundings out;
  if (const auto link = cost::parse_link(job.parallel.link); !job.parallel.link.empty() && link.ok())
    out.link = *link;
  return out;
}

// What is known of machines and links. Under a memory limit stages are checked before the start, when nothing
// is measured; and what a pipeline that never drains learns must not depend on a clock.
Surroundings known_to(const job::Job& job, const PrepareOptions& options, const DepthModel& model,
                      std::int32_t chain) {
  if (!job.train.memory_limit.empty()) return assumed_by(job);
  Surroundings out = assumed_by(job);
  if (options.rates == nullptr || job::overlaps_steps(job)) return out;
  out.speeds = speeds_of(job, options, chain);
  out.machine = options.rates->machine;
  out.threads = model.shard_threads;
  out.link = options.rates->comm.link;
  return out;
}

TimetableSpec spec_of(const job::Job& job, const PrepareOptions& options, std::int32_t shards) {
  return timetable_of(job, options.stages, chain_of(job, options) / options.stages,
                      parallel::even_runs(shards, options.replicas)[0].count);
}

double message_seconds(const Surroundings& around, double bytes) {
  if (!around.link) return 0;
  return to_seconds(cost::transfer_time(static_cast<std::uint64_t>(bytes), *around.link));
}

// Layers as pieces. Backward takes twice as long as forward.
StagePieces pieces_of(const DepthModel& model, const Surroundings& around) {
  const graph::Graph& forward = *model.forward;
  StagePieces out;
  out.seconds.resize(model.layers->layers.size());
  for (std::int32_t i = 0; i < forward.size(); ++i) {
    const std::int32_t layer = model.layers->layer_of[static_cast<std::size_t>(i)];
    if (layer < 0 || !around.machine) continue;
    out.seconds[static_cast<std::size_t>(layer)].forward +=
        to_seconds(cost::compute_time(graph::node_cost(forward, i), *around.machine, around.threads));
  }
  for (std::size_t l = 0; l < out.seconds.size(); ++l) {
    parallel::PhaseTimes& t = out.seconds[l];
    if (!around.machine) t.forward = model.layers->layers[l].seconds / (3 * kAssumedCores);
    t.backward = t.weights = t.forward;
  }
  for (const parallel::FenceBytes& f : parallel::fence_bytes(forward, *model.layers, model.trained)) {
    out.activations.push_back(message_seconds(around, f.forward));
    out.gradients.push_back(message_seconds(around, f.back));
    out.entering.push_back(static_cast<std::int64_t>(f.forward + f.back));
    out.leaving.push_back(static_cast<std::int64_t>(f.back));  // the layer keeps what it makes
  }
  return out;
}

// Segments as pieces: runs of layers.
StagePieces joined(const StagePieces& layers, const parallel::Cuts& cuts) {
  StagePieces out;
  std::vector<std::int32_t> ends = cuts.layers;
  ends.push_back(layers.size());
  std::int32_t begin = 0;
  for (const std::int32_t end : ends) {
    parallel::PhaseTimes seconds;
    parallel::PieceBytes bytes;
    for (auto l = static_cast<std::size_t>(begin); l < static_cast<std::size_t>(end); ++l) {
      seconds.forward += layers.seconds[l].forward;
      seconds.backward += layers.seconds[l].backward;
      seconds.weights += layers.seconds[l].weights;
      if (layers.bytes.empty()) continue;
      bytes.held += layers.bytes[l].held;
      bytes.kept += layers.bytes[l].kept;
      bytes.version += layers.bytes[l].version;
      bytes.in_turn += layers.bytes[l].in_turn;
      bytes.scratch = std::max(bytes.scratch, layers.bytes[l].scratch);
    }
    out.seconds.push_back(seconds);
    if (!layers.bytes.empty()) out.bytes.push_back(bytes);
    if (end == layers.size()) break;
    const auto fence = static_cast<std::size_t>(end) - 1;
    out.activations.push_back(layers.activations[fence]);
    out.gradients.push_back(layers.gradients[fence]);
    out.entering.push_back(layers.entering[fence]);
    out.leaving.push_back(layers.leaving[fence]);
    begin = end;
  }
  return out;
}

// Layers of which each stage makes one segment: it has no turns.
void join_turns(StagePieces& layers) {
  for (parallel::PieceBytes& b : layers.bytes) b.held += std::exchange(b.in_turn, 0);
}

// Versions of the weights beside the newest, per virtual stage.
std::vector<std::int64_t> old_versions(const parallel::TimetableRow& row, const TimetableSpec& spec) {
  std::vector<std::int64_t> versions;
  for (int v = 0; v < spec.chain(); ++v) versions.push_back(row.weight_versions(spec, spec.stage_of(v)) - 1);
  return versions;
}

// The most micro-batches in flight, per virtual stage.
Result<std::vector<std::int64_t>> in_flight_of(const TimetableSpec& spec) {
  TR_ASSIGN_OR_RETURN(const auto stages, parallel::build_timetables(spec));
  std::vector<std::int64_t> now(static_cast<std::size_t>(spec.chain()), 0), most = now;
  for (const parallel::StageActions& actions : stages)
    for (const parallel::TimetableAction& a : actions) {
      const auto v = static_cast<std::size_t>(a.virtual_stage);
      if (a.phase == parallel::Phase::kForward) most[v] = std::max(most[v], ++now[v]);
      if (a.phase == parallel::Phase::kWeights) --now[v];
    }
  return most;
}

// A rank's part of the limit, and of it that of one of its virtual stages.
Result<std::int64_t> limit_of(const job::Job& job, const PrepareOptions& options, const TimetableSpec& spec) {
  TR_ASSIGN_OR_RETURN(const std::uint64_t parsed, parse_bytes(job.train.memory_limit));
  TR_ASSIGN_OR_RETURN(const job::Seating seating, job::seating_of(job, options.tiles));
  const auto seats = std::count(seating.workers.begin(), seating.workers.end(), 0);
  return static_cast<std::int64_t>(parsed) / seats / spec.virtual_stages;
}

struct Asked {
  StagePieces pieces;
  Surroundings around;
  TimetableSpec spec;
  double least_gain = kSmallGain;
};

// What the timetable does not take is refused where it is checked.
Result<PieceRuns> choose(const job::Job& job, const PrepareOptions& options, const Asked& asked,
                         const PieceRuns& usual, std::int64_t common_bytes) {
  const auto row = parallel::find_timetable_row(asked.spec.kind);
  if (!row.ok() || !parallel::check_timetable(asked.spec).ok()) return usual;
  const bool is_synchronous = (*row)->is_synchronous;
  parallel::StageCutRequest request;
  request.pieces = &asked.pieces;
  request.speeds = asked.around.speeds;
  const std::int64_t steps = is_synchronous ? 1 : 4 * (asked.spec.stages + 1);
  request.actions = steps * 3 * asked.spec.chain() * asked.spec.micro_batches;
  request.price = [&asked, is_synchronous](const parallel::TimetableTimes& times) -> Result<double> {
    TR_ASSIGN_OR_RETURN(const parallel::PricedTimetable priced,
                        price_step(asked.spec, is_synchronous, times));
    return priced.price.makespan_seconds;
  };
  if (!asked.pieces.bytes.empty()) {
    TR_ASSIGN_OR_RETURN(request.limit_bytes, limit_of(job, options, asked.spec));
    TimetableSpec walked = asked.spec;
    if (!is_synchronous) walked.micro_batches *= walked.stages + 1;  // as in a run without an end
    TR_ASSIGN_OR_RETURN(request.in_flight, in_flight_of(walked));
    request.versions = old_versions(**row, walked);
    request.common_bytes = common_bytes / asked.spec.virtual_stages;
  }
  TR_ASSIGN_OR_RETURN(const parallel::StageCutChoice choice,
                      parallel::choose_stage_cuts(request, usual, asked.least_gain));
  return choice.first;
}

PieceRuns runs_of(const parallel::Cuts& cuts) {
  PieceRuns first{0};
  first.insert(first.end(), cuts.layers.begin(), cuts.layers.end());
  return first;
}

// With a limit, what layers hold.
Result<std::int64_t> add_bytes(const job::Job& job, const DepthModel& model, StagePieces& layers) {
  if (job.train.memory_limit.empty()) return 0;
  TR_ASSIGN_OR_RETURN(LayerBytes bytes, model.bytes());
  layers.bytes = std::move(bytes.layers);
  return bytes.common;
}

}  // namespace

Result<parallel::Cuts> choose_segments(const job::Job& job, const PrepareOptions& options,
                                       const DepthModel& model) {
  const std::int32_t segments = job::segments_of(job);
  TR_ASSIGN_OR_RETURN(parallel::Cuts cuts, parallel::balanced_cuts(*model.layers, segments));
  const bool of_mesh = job.options.integer(job::kSegments) == 0 && chain_of(job, options) == segments;
  if (!of_mesh || (job.parallel.link.empty() && job.train.memory_limit.empty())) return cuts;
  Asked asked;
  asked.around = assumed_by(job);
  asked.pieces = pieces_of(model, asked.around);
  TR_ASSIGN_OR_RETURN(const std::int64_t common, add_bytes(job, model, asked.pieces));
  join_turns(asked.pieces);
  asked.spec = spec_of(job, options, model.logical_shards);
  asked.least_gain = kClearGain;
  TR_ASSIGN_OR_RETURN(const PieceRuns first, choose(job, options, asked, runs_of(cuts), common));
  cuts.layers.assign(first.begin() + 1, first.end());
  return cuts;
}

Result<std::vector<collective::LeafRun>> share_segments(const job::Job& job, const PrepareOptions& options,
                                                        const DepthModel& model, const parallel::Cuts& cuts) {
  const std::int32_t chain = chain_of(job, options), segments = cuts.segments();
  parallel::LayerList list;
  list.layers.resize(static_cast<std::size_t>(segments));
  for (std::size_t l = 0, s = 0; l < model.layers->layers.size(); ++l) {
    if (s < cuts.layers.size() && static_cast<std::size_t>(cuts.layers[s]) == l) ++s;
    list.layers[s].seconds += model.layers->layers[l].seconds;
  }
  Asked asked;
  asked.around = known_to(job, options, model, chain);
  TR_ASSIGN_OR_RETURN(const parallel::Cuts usual, parallel::balanced_cuts(list, chain, asked.around.speeds));
  PieceRuns first = runs_of(usual);
  if (chain > 1 && segments > chain) {
    StagePieces layers = pieces_of(model, asked.around);
    TR_ASSIGN_OR_RETURN(const std::int64_t common, add_bytes(job, model, layers));
    asked.pieces = joined(layers, cuts);
    asked.spec = spec_of(job, options, model.logical_shards);
    TR_ASSIGN_OR_RETURN(first, choose(job, options, asked, first, common));
  }
  std::vector<collective::LeafRun> out;
  for (std::size_t v = 0; v < first.size(); ++v)
    out.push_back({first[v], (v + 1 < first.size() ? first[v + 1] : segments) - first[v]});
  return out;
}

TimetableSpec timetable_of(const job::Job& job, int stages, int virtual_stages, int micro_batches) {
  TimetableSpec spec;
  spec.kind = job.options.text(job::kPipeline);
  spec.stages = stages;
  spec.virtual_stages = virtual_stages;
  spec.micro_batches = micro_batches;
  spec.vertical_sync = job.options.flag(job::kVerticalSync);
  spec.weight_stashing = job.options.flag(job::kWeightStashing);
  const auto row = parallel::find_timetable_row(spec.kind);
  if (row.ok() && !(*row)->is_synchronous && (*row)->update_every(spec) != spec.micro_batches)
    spec.update_every = spec.micro_batches;
  return spec;
}

Result<parallel::PricedTimetable> price_step(const parallel::TimetableSpec& spec, bool is_synchronous,
                                             const parallel::TimetableTimes& times) {
  if (is_synchronous) return parallel::price_timetable(spec, times);
  // What one step more adds to a long run.
  const int few = spec.stages + 1, many = 3 * few;
  parallel::TimetableSpec run = spec;
  run.micro_batches = spec.micro_batches * few;
  TR_ASSIGN_OR_RETURN(const parallel::PricedTimetable fill, parallel::price_timetable(run, times));
  run.micro_batches = spec.micro_batches * many;
  TR_ASSIGN_OR_RETURN(parallel::PricedTimetable priced, parallel::price_timetable(run, times));
  parallel::TimetablePrice& price = priced.price;
  price.makespan_seconds = (price.makespan_seconds - fill.price.makespan_seconds) / (many - few);
  price.step_seconds = price.makespan_seconds;
  double busy = 0;
  for (parallel::StagePrice& stage : price.stages) busy += stage.busy_seconds /= many;
  price.bubble_fraction = std::max(0.0, 1 - busy / (spec.stages * price.step_seconds));
  return priced;
}

}  // namespace trireme::prepare
