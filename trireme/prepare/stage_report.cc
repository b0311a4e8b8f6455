#include "trireme/prepare/stage_report.h"

#include <algorithm>

#include "trireme/job/job_parts.h"
#include "trireme/prepare/make_plan.h"
#include "trireme/prepare/memory_estimate.h"
#include "trireme/prepare/prepare.h"
#include "trireme/prepare/stages.h"
#include "trireme/prepare/tiles.h"

namespace trireme::prepare {
namespace {

constexpr double kClearlyLess = 0.9;

// Layers of the model, and those that begin a segment.
struct CutLayers {
  parallel::LayerList list;
  std::vector<std::int32_t> first_of_segment;  // and the number of layers at its end

  const std::string& name(std::int32_t layer) const {
    return list.layers[static_cast<std::size_t>(layer)].name;
  }
};

// Graphs of training and evaluation have the same layers.
Result<CutLayers> layers_of_job(const job::Job& job, const Prepared& prepared) {
  TR_ASSIGN_OR_RETURN(const model::ModelGraphs model, job::build_job_model(job, prepared.input, 1));
  TR_ASSIGN_OR_RETURN(const graph::Graph forward, forward_graph(model.eval, {"loss", "correct"}));
  CutLayers out{parallel::layers_of(forward), {0}};
  TR_ASSIGN_OR_RETURN(const parallel::Cuts cuts,
                      parallel::named_cuts(forward, out.list, prepared.plan.segment_cuts));
  out.first_of_segment.insert(out.first_of_segment.end(), cuts.layers.begin(), cuts.layers.end());
  out.first_of_segment.push_back(static_cast<std::int32_t>(out.list.layers.size()));
  return out;
}

// What crosses the end of a segment, forward or as gradients.
double bytes_behind(const Stages& stages, std::int32_t segment, bool back) {
  double bytes = 0;
  for (const parallel::Crossing& c : stages.train)
    if (c.from <= segment && segment < c.last && (!back || c.comes_back))
      bytes += static_cast<double>(c.type.num_bytes());
  return bytes;
}

VirtualStageReport report_run(const Prepared& prepared, const CutLayers& layers,
                              const parallel::TimetableTimes& times, std::size_t number) {
  const Stages& stages = *prepared.stages;
  const collective::LeafRun run = prepared.plan.segment_owners[number];
  const std::int32_t end = run.first + run.count;
  const std::int32_t first = layers.first_of_segment[static_cast<std::size_t>(run.first)],
                     behind = layers.first_of_segment[static_cast<std::size_t>(end)];
  VirtualStageReport out;
  out.number = static_cast<int>(number);
  out.first_layer = layers.name(first);
  out.last_layer = layers.name(behind - 1);
  out.num_layers = behind - first;
  out.num_segments = run.count;
  out.seconds = times.phases[number];
  out.forward_bytes = end < prepared.plan.segments ? bytes_behind(stages, end - 1, false) : 0;
  out.back_bytes = run.first > 0 ? bytes_behind(stages, run.first - 1, true) : 0;
  return out;
}

Result<StageReport> report_stage(const job::Job& job, const Prepared& prepared, const CutLayers& layers,
                                 const parallel::TimetableTimes& times, int threads) {
  const Stages& stages = *prepared.stages;
  StageReport out;
  for (std::size_t v = 0; v < stages.first_segments.size(); ++v)
    if (stages.timetable.stage_of(static_cast<int>(v)) == stages.stage)
      out.runs.push_back(report_run(prepared, layers, times, v));
  TR_ASSIGN_OR_RETURN(const MemoryEstimate memory, estimate_prepared(job, prepared, threads));
  for (const char* part : {"parameters", "optimizer", "statistics"}) out.state_bytes += memory.bytes_of(part);
  out.kept_bytes = memory.bytes_of("values");
  out.total_bytes = memory.total_bytes();
  TR_ASSIGN_OR_RETURN(const parallel::TimetableRow* row, parallel::find_timetable_row(stages.timetable.kind));
  out.weight_versions = row->weight_versions(stages.timetable, stages.stage);
  return out;
}

double busy(const parallel::PhaseTimes& t) { return t.forward + t.backward + t.weights + t.update; }

// The messages of a stage in one direction, of a micro-batch: no action hides more of them than it takes.
double longest_messages(const StageReport& stage, const parallel::TimetableTimes& times) {
  double forward = 0, back = 0;
  for (const VirtualStageReport& run : stage.runs) {
    const auto v = static_cast<std::size_t>(run.number);
    forward += v < times.activations.size() ? times.activations[v] : 0;
    back += v > 0 ? times.gradients[v - 1] : 0;
  }
  return std::max(forward, back);
}

// The layers that begin virtual stages.
std::vector<std::string> first_layers(const plan::Plan& plan) {
  std::vector<std::string> names;
  for (const collective::LeafRun& run : plan.segment_owners)
    names.push_back(run.first == 0 ? "" : plan.segment_cuts[static_cast<std::size_t>(run.first) - 1]);
  names.emplace_back();  // behind the last one nothing moves
  return names;
}

// Where the job would be cut if all memory were there, and what a step would take.
Status compare_unlimited(job::Job job, const model::ModelInput& input, PrepareOptions options,
                         const Prepared& limited, StagesReport& out) {
  out.unlimited_seconds = out.priced.price.makespan_seconds;
  if (job.train.memory_limit.empty()) return {};
  job.train.memory_limit.clear();
  options.fixed = nullptr;
  options.owners_stand = false;
  options.like = nullptr;
  options.stage = 0;
  TR_ASSIGN_OR_RETURN(const auto free, prepare(job, input, options));
  const cost::Rates rates = rates_of(options);
  TR_ASSIGN_OR_RETURN(const parallel::PricedTimetable priced,
                      price_step(*free->stages, pipeline_times(*free, rates)));
  out.unlimited_seconds = priced.price.makespan_seconds;
  const auto now = first_layers(limited.plan), before = first_layers(free->plan);
  for (StageReport& stage : out.stages)
    for (const VirtualStageReport& run : stage.runs)
      for (const std::size_t end : {static_cast<std::size_t>(run.number), run.number + std::size_t{1}})
        if (now[end] != before[end]) stage.limit = StageLimit::kMemory;
  return {};
}

}  // namespace

const char* name_of(StageLimit limit) {
  return limit == StageLimit::kCompute ? "compute" : limit == StageLimit::kLink ? "link" : "memory";
}

parallel::PhaseTimes StageReport::seconds() const {
  parallel::PhaseTimes sum;
  for (const VirtualStageReport& run : runs) {
    sum.forward += run.seconds.forward;
    sum.backward += run.seconds.backward;
    sum.weights += run.seconds.weights;
    sum.update += run.seconds.update;
  }
  return sum;
}

bool StagesReport::waits_for_links() const {
  return unlinked_seconds < kClearlyLess * priced.price.makespan_seconds;
}

bool StagesReport::waits_for_memory() const {
  return unlimited_seconds < kClearlyLess * priced.price.makespan_seconds;
}

StageLimit StagesReport::limit() const {
  if (waits_for_memory()) return StageLimit::kMemory;
  return waits_for_links() ? StageLimit::kLink : StageLimit::kCompute;
}

Result<StagesReport> report_stages(const job::Job& job, const model::ModelInput& input,
                                   PrepareOptions options) {
  StagesReport out;
  const cost::Rates rates = rates_of(options);
  CutLayers layers;
  parallel::TimetableTimes times;
  std::shared_ptr<const Prepared> first;
  for (options.stage = 0; options.stage < options.stages; ++options.stage) {
    TR_ASSIGN_OR_RETURN(const auto prepared, prepare(job, input, options));
    if (options.stage == 0) {
      options.fixed = std::make_shared<const plan::Plan>(prepared->whole_plan());
      options.owners_stand = true;
      options.like = prepared;
      times = pipeline_times(*prepared, rates);
      TR_ASSIGN_OR_RETURN(layers, layers_of_job(job, *prepared));
      TR_ASSIGN_OR_RETURN(out.priced, price_step(*prepared->stages, times));
      first = prepared;
    }
    TR_ASSIGN_OR_RETURN(StageReport stage,
                        report_stage(job, *prepared, layers, times, options.compute_threads));
    stage.in_flight = out.priced.price.stages[static_cast<std::size_t>(options.stage)].peak_in_flight;
    if (longest_messages(stage, times) > busy(stage.seconds())) stage.limit = StageLimit::kLink;
    out.stages.push_back(std::move(stage));
    const std::size_t own = out.stages.size() - 1, slowest = static_cast<std::size_t>(out.slowest);
    if (busy(out.stages[own].seconds()) > busy(out.stages[slowest].seconds()))
      out.slowest = static_cast<int>(own);
  }
  TR_RETURN_IF_ERROR(compare_unlimited(job, input, options, *first, out));
  for (auto* messages : {&times.activations, &times.gradients})
    std::fill(messages->begin(), messages->end(), 0.0);
  TR_ASSIGN_OR_RETURN(const parallel::PricedTimetable unlinked, price_step(*first->stages, times));
  out.unlinked_seconds = unlinked.price.makespan_seconds;
  return out;
}

}  // namespace trireme::prepare
