// Stages: the graphs of a model that is cut in its depth, and what a position of the stage axis has of its
// variables. A plan with one segment has the graphs as they are (Prepared::train).
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "trireme/parallel/pipeline/price.h"
#include "trireme/parallel/segment/segments.h"
#include "trireme/prepare/prepared.h"
#include "trireme/prepare/work.h"

namespace trireme::prepare {

// Phases of a segment's train graph: runs of its Executions, in the words of timetables. Where a timetable
// does not split W from B, B makes the gradients of weights too, and W does nothing.
inline constexpr int kForwardPhase = 0, kBackwardPhase = 1, kWeightsPhase = 2, kNumTrainPhases = 3;

// A segment of a rank: forward, backward and gradients of weights in the train graph, forward in the other.
struct StageSegment {
  std::int32_t index = 0;  // along the model
  Compiled train, eval;
  std::vector<std::size_t> buckets;  // that its gradients and statistics are in
  // Gradients that backward makes by the way, before other micro-batches may go backward: they are kept, and
  // copied into their buckets when the weights' turn comes. Empty unless B and W are split.
  std::vector<std::string> early;                 // parameters
  std::vector<std::vector<std::string>> outputs;  // of the train graph, by phase
  // Where shards are dealt out: per bucket, where its gradients are written in memory that segments use in
  // turn, in elements. Segments with the same turn share theirs.
  std::vector<std::int64_t> written_at = {};
  int turn = 0;
};
// What the phases of a segment cost, of all segments: for prices. And where the slots of its collectives
// begin.
struct SegmentCost {
  cost::OpCost phases[kNumTrainPhases];
  std::shared_ptr<const PhaseWork> work;  // of the phases
  double sent_bytes = 0;                  // forward, to the next segment
  std::int64_t train_slot = 0, eval_slot = 0;
};

struct Stages {
  parallel::TimetableSpec timetable;  // its micro-batches are those of a step of the first replica
  bool is_synchronous = true;         // its row's word
  bool splits_weights = true;         // B and W are phases of their own (splits_weights())
  int stage = 0;
  std::vector<StageSegment> segments;           // of this rank, ascending
  std::vector<parallel::Crossing> train, eval;  // values between segments
  std::vector<SegmentCost> costs;               // per segment of the model
  std::map<std::string, std::string> kernels;   // of all segments
  // The model in segments, whole: for other places of the plan (PrepareOptions::like).
  std::shared_ptr<const parallel::SegmentedModel> whole_train, whole_eval;
  // Per crossing and virtual stage at whose end it passes, the slot of its messages; back, the next one.
  std::vector<std::vector<std::int32_t>> train_slots, eval_slots;
  int stage_of(std::int32_t segment) const;  // who has it
  std::int32_t virtual_stage_of(std::int32_t segment) const;
  std::vector<std::int32_t> first_segments;  // per virtual stage
  std::int64_t written_elems = 0;            // of that memory; 0: every bucket has memory of its own

  const StageSegment* find(std::int32_t segment) const;  // null: it is another rank's
};

// How a model is cut in its depth, before a plan has it: cuts, owners and layouts, into out.plan. Where the
// cuts are `fixed`, stages share the segments anew.
Status cut_depth(const job::Job& job, const PrepareOptions& options, bool fixed, Prepared& out);
// Buckets of every segment's parameters, of these sizes, and statistics, in the order in which backward ends.
Result<std::vector<plan::Bucket>> segment_buckets(const job::Job& job, const Prepared& prepared,
                                                  const std::vector<plan::ParameterSize>& sizes,
                                                  std::int64_t bucket_bytes);
// Positions of the stage axis that have one of these segments, ascending.
std::vector<int> stages_with(const plan::Plan& plan, const std::vector<std::int32_t>& segments);
// Whether the backward pass of a segment is two phases, B and W, or all of it is B: what lives between them
// is not kept then. They are two where the timetable puts something between them, and where gradients are
// divided among replicas: those of one micro-batch are then on their way during B of the next one.
bool splits_weights(const Prepared& prepared);
// Types, states and buckets of `out` as a stage of the plan has them: what is another's is empty. The plan of
// all stages stays in out.whole_buckets.
Status take_stage(const job::Job& job, int stage, Prepared& out);
// The graphs of the stage's segments, into out.stages.
Status compile_stages(const job::Job& job, const PrepareOptions& options, const exec::CompileOptions& kernels,
                      Prepared& out);
// The work of one logical shard, segment by segment, as if one rank had them all.
plan::StepCosts segment_costs(const Prepared& prepared);
// What the step's program is made of: a bucket is final when the first of its segments is done. The loss is a
// part of its own, which stages without one have computed from the beginning.
plan::StepParts segment_parts(const Prepared& prepared);
std::int32_t part_of_segment(const plan::Plan& plan, std::int32_t segment);
// Whether the gradients of every micro-batch can be divided among the replicas: nothing is to be known about
// all of them first, and micro-batches of all replicas are subtrees of the fixed tree.
bool can_deal_shards(const job::Job& job, const plan::Plan& plan);
// Keeps less between the phases of a segment of this rank, at least `save_bytes` where that can be: cheap
// values are computed again in the phase that reads them.
Status keep_less(const exec::CompileOptions& kernels, std::size_t segment, std::int64_t save_bytes,
                 Prepared& out);
// Bytes that a rank of a stage holds for its segments.
struct StageBytes {
  std::map<std::int32_t, std::int64_t> in_flight;  // micro-batches at most, per virtual stage
  std::int64_t kept = 0;                           // of all micro-batches in flight
  std::int64_t scratch = 0;                        // of one phase
  std::int64_t gradients = 0;                      // and sums of them
  std::int64_t versions = 0;                       // of weights, beside the newest
  std::int64_t evaluation = 0;
};
Result<StageBytes> stage_bytes(const Prepared& prepared, int replica);
// What the phases of virtual stages and their messages take.
parallel::TimetableTimes pipeline_times(const Prepared& prepared, const cost::Rates& rates);
// What a step of this plan takes beside updates, by the timetable.
Result<parallel::PricedTimetable> price_pipeline(const Prepared& prepared, const cost::Rates& rates);
// The same with these times. Where the pipeline never drains, a step in the middle of a long run.
Result<parallel::PricedTimetable> price_step(const Stages& stages, const parallel::TimetableTimes& times);

}  // namespace trireme::prepare
