// How a model is cut in its depth and who has which segments: the choice of parallel/segment/stage_cuts.h
// with what a job says and what is known of machines and links.
//
// The cuts between segments decide bits, so they follow from the job's text and never from what was measured:
// from computation alone, unless the segments are those of the mesh (train.segments = 0) and the job says
// what link there is (parallel.link) or what fits (train.memory_limit). Sharing segments among stages decides
// nothing but time, so it may look at measured machines and links.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "trireme/collective/schedule.h"
#include "trireme/parallel/segment/stage_cuts.h"
#include "trireme/prepare/prepared.h"

namespace trireme::prepare {

// What layers hold where each of them is a segment, about: `in_turn` is then their part of what the segments
// of a stage use in turn. `common`: what every stage has beside them.
struct LayerBytes {
  std::vector<parallel::PieceBytes> layers;
  std::int64_t common = 0;
};

// The forward graph of a logical shard, its layers, and what is trained of it.
struct DepthModel {
  const graph::Graph* forward = nullptr;
  const parallel::LayerList* layers = nullptr;
  std::span<const std::string> trained;
  std::int32_t logical_shards = 1;
  int shard_threads = 1;
  std::function<Result<LayerBytes>()> bytes = {};  // asked for where there is a memory limit
};

// Where a run that begins is cut.
Result<parallel::Cuts> choose_segments(const job::Job& job, const PrepareOptions& options,
                                       const DepthModel& model);
// Runs of these segments along the chain of virtual stages.
Result<std::vector<collective::LeafRun>> share_segments(const job::Job& job, const PrepareOptions& options,
                                                        const DepthModel& model, const parallel::Cuts& cuts);

// The job's timetable for so many stages, and micro-batches of a step.
parallel::TimetableSpec timetable_of(const job::Job& job, int stages, int virtual_stages, int micro_batches);

// What a step takes. Where the pipeline never drains, a step in the middle of a long run.
Result<parallel::PricedTimetable> price_step(const parallel::TimetableSpec& spec, bool is_synchronous,
                                             const parallel::TimetableTimes& times);

}  // namespace trireme::prepare
