// Plan: the value that fixes everything about how a job runs. Written to plan.json; the trainer runs only
// Plans.
//
// What decides the bits of the result (logical shards, threads per shard, kernels, buckets, collectives) is
// fixed at the first start and never changes for that run; who owns which shards may change with the number
// of workers.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "trireme/base/json.h"
#include "trireme/collective/schedule.h"
#include "trireme/comm/sum/price.h"
#include "trireme/cost/rates.h"
#include "trireme/parallel/cells.h"
#include "trireme/parallel/layout.h"
#include "trireme/parallel/shard/stored_options.h"
#include "trireme/plan/step_model.h"

namespace trireme::plan {

// Gradients that travel together, in the order in which backward finishes them.
struct Bucket {
  std::uint16_t slot = 0;               // identity of its messages
  std::vector<std::string> parameters;  // reverse order of use in the forward pass
  std::vector<std::int64_t> offsets;    // of each parameter in the bucket, in elements
  // Batch-norm statistics of this step, which are added up like gradients; in the last bucket.
  std::vector<std::string> statistics;
  std::vector<std::int64_t> statistic_offsets;
  std::int64_t num_elems = 0;  // including alignment and that room
  // The last bucket has room for three numbers that travelled with it before ranks had a vote, from here on.
  // Nobody uses it; it stays because the size of a bucket decides where rings and encoded sums cut it, and so
  // their bits. -1 elsewhere.
  std::int64_t metrics_offset = -1;
  std::string collective = "fixed-tree";
  std::string sum = kDense;  // how gradients are added: a row of comm/sum
  std::string codec = {};    // what they are encoded by; empty: they travel as they are
  // With sum kFactors no gradient travels: a shard has a vector of `factor_elems` with both factors of each
  // parameter's gradient, at factor_offsets[2 i] and [2 i + 1]. All workers, or the servers, get those of all
  // shards and multiply. Weights and the sum of the gradients lie as `offsets` say.
  std::vector<std::int64_t> factor_offsets = {};
  std::int64_t factor_elems = 0;
  // Segments of the model that make its gradients, ascending: several where they read the same parameters.
  std::vector<std::int32_t> segments = {0};
  // Where less than the gradient travels: about how long a shard's message is, and bytes moved to make or
  // read one.
  double message_bytes = 0, code_bytes = 0;
  bool sends_factors() const { return sum == kFactors; }
  // Every shard's vector is encoded or factored, so none are added up before.
  bool is_coded() const { return !codec.empty() || sum == kLowRank; }

  // Rows of comm/sum that plans make a difference for.
  static constexpr const char* kDense = "tree";
  static constexpr const char* kFactors = "factors";
  static constexpr const char* kLowRank = "low-rank";
};

// What the plan believes a step takes, phase by phase; reported beside what was measured.
struct StepPrediction {
  double compute_seconds = 0;
  double exchange_seconds = 0;  // not hidden: the part after backward
  double update_seconds = 0;
  double axis_seconds = 0;        // exchanges within replicas, for which the graphs wait
  double one_worker_seconds = 0;  // of the same batch by one such worker alone; 0: not known
  double bubble_fraction = 0;     // of the stages' time in a step, what they do not compute
  double measured_fraction = 0;   // of compute_seconds, what is of nodes that were measured (cost/op_times.h)
  double step_seconds() const { return compute_seconds + exchange_seconds + update_seconds + axis_seconds; }
  double one_worker_rate(std::int64_t batch) const {  // samples per second
    return one_worker_seconds > 0 ? static_cast<double>(batch) / one_worker_seconds : 0;
  }
};

// A way that was thought of, in the word of parallel.codec: what all its exchanges of a step take, and the
// step with them.
struct CodecChoice {
  std::string codec, sum;
  double seconds = 0, step_seconds = 0;
};

inline constexpr int kPlanVersion = 2;

struct Plan {
  std::string job_sha256;   // of the part of the job that decides the result
  std::string data_sha256;  // of what the data source holds; empty: not known
  std::int32_t logical_shards = 1, tiles = 1, segments = 1;  // cells
  std::int64_t shard_batch = 1;
  int shard_threads = 1;
  // Who computes which cells: runs of logical shards per replica (worker), of tiles per coordinate of the
  // model axis, of segments per coordinate of the stage axis.
  std::vector<collective::LeafRun> owners, tile_owners = {{0, 1}}, segment_owners = {{0, 1}};
  std::int32_t virtual_stages = 1;  // runs of segments of a coordinate
  // With several segments: the layers that begin them, the first one left out, and in which order cells are
  // computed (a row of parallel/pipeline).
  std::vector<std::string> segment_cuts = {};
  std::string pipeline = {};
  std::string agreement = "bsp";
  std::string transport = "inproc";
  std::string kernel_library;                       // what the kernels were built with
  std::map<std::string, std::string> kernels;       // op -> kernel
  std::map<std::string, parallel::Layout> layouts;  // of parameters over the mesh
  // With several tiles: how the nodes of the train and of the evaluation graph are cut over them.
  parallel::StoredOptions train_cuts, eval_cuts;
  // With several segments too: the same of each of them.
  std::vector<parallel::StoredOptions> segment_train_cuts, segment_eval_cuts;
  // What the tiles of one logical shard exchange in a step, by the cost model, and bytes that one of them
  // sends.
  double tile_seconds = 0, tile_bytes = 0;
  std::vector<Bucket> buckets;
  // The workers have one set of weights, and each updates its part (one host).
  bool shared_weights = false;
  // What the replicas divide among themselves (parallel.zero).
  std::int32_t zero = 0;
  std::string codec;                 // the word chosen for parallel.codec = "auto"; empty: as the job says
  std::vector<CodecChoice> choices;  // what it was chosen from
  std::int64_t chosen_at = 0;        // before this step; above 0: chosen again by what was measured
  Timetable timetable = Timetable::kLockStep;
  Overlap overlap = Overlap::kBuckets;
  std::vector<std::int32_t> exchange_order;  // kFull: the order in which all workers start their exchanges
  StepPrediction prediction;

  int workers() const { return static_cast<int>(owners.size()); }
  // The level that holds: one replica has all.
  std::int32_t zero_level() const { return workers() > 1 ? zero : 0; }
  parallel::LogicalMesh logical_mesh() const { return {logical_shards, tiles, segments}; }
  parallel::CellOwners cell_owners() const { return {owners, tile_owners, segment_owners, virtual_stages}; }
  parallel::Mesh mesh() const { return parallel::mesh_of(cell_owners()); }
};

// Always version 2. Reading takes version 1 too, as replicas of the whole model, and refuses a field of
// version 2 that is not known, by name.
Json to_json(const Plan& plan);
Result<Plan> plan_from_json(const Json& json);

// The elements of a bucket that are parameters, alignment included; statistics and unused room follow.
std::int64_t parameter_elems(const Bucket& bucket);

struct ParameterSize {
  std::string name;
  std::int64_t num_elems;
  std::int64_t u_elems = 0, v_elems = 0;  // above 0: its gradient travels as two factors of a shard
  std::string sum = {}, codec = {};       // parameters of different ones share no bucket; empty: the rest
};
inline constexpr std::int64_t kNumMetrics = 3;  // in Bucket::metrics_offset

// What a shard brings to the vote of a step: numbers (engine/vote/vote.h).
inline constexpr std::int64_t kVoteElems = 6;

// Poseidon's rule among peers (Zhang et al., USENIX ATC 2017): the factors of a worker's K samples, K (M + N)
// numbers to each of the W - 1 others, pay when they are fewer than the 2 M N (W - 1) / W that it sends to
// add an M x N gradient up.
bool factors_pay(std::int64_t factor_elems, std::int64_t gradient_elems, int num_workers);

// Buckets of about `bucket_bytes` over `parameters` (given in order of use); those that travel as factors or
// in a codec of their own have buckets of their own. The last one, which is one of the rest, carries the
// statistics.
std::vector<Bucket> make_buckets(const std::vector<ParameterSize>& parameters, std::int64_t bucket_bytes,
                                 const std::string& collective,
                                 const std::vector<ParameterSize>& statistics = {});

// The work of one logical shard's step: what runs one after the other, and where buckets come in.
struct StepCosts {
  std::vector<cost::OpCost> strands;
  std::vector<std::int32_t> needed_before;  // per bucket: the strand that first reads its parameters
  std::vector<std::int32_t> final_after;    // per bucket: the strand that makes its gradients final
  std::vector<cost::OpCost> updates;        // per bucket
  std::int32_t loss_after = -1;             // the strand that makes the loss; -1: it is known at the end
  bool updates_wait = false;                // for something about all gradients: their norm, NaN, the scale
  // parallel.zero = 3: buckets whose parameters are brought together within a step, in this order.
  std::vector<std::size_t> gathers = {};
  // The nodes of the strands and of the updates, for what was measured of them; empty: not known.
  std::vector<cost::Work> strand_work = {}, update_work = {};
};

// Seconds that the exchange of a bucket takes, with what its codec needs.
double bucket_seconds(const Plan& plan, const Bucket& bucket, const cost::Rates& rates);
// Where replicas divide state (zero_level): seconds and bytes of a replica in one gathering of the bucket's
// parameters.
comm::SumPrice gather_price(const Plan& plan, const Bucket& bucket, const cost::Rates& rates);
// What its sum costs, and what that is asked about.
comm::SumPrice bucket_price(const Plan& plan, const Bucket& bucket, const cost::Rates& rates);
comm::SumShape sum_shape(const Plan& plan, const Bucket& bucket);

// Logical shards that compute at the same time on a worker of the plan.
int shards_at_once(const Plan& plan, const cost::Rates& rates);
// A strand of a shard, while as many of them compute as do.
cost::WorkSeconds strand_seconds(const Plan& plan, const StepCosts& costs, std::size_t strand,
                                 const cost::Rates& rates);
// Prices a step of the busiest worker. The shards that a worker cannot run at once follow one another: the
// first ones need the weights, the last ones make the gradients final.
StepShape step_shape(const Plan& plan, const StepCosts& costs, const cost::Rates& rates);
StepShape step_shape(const Plan& plan, const StepCosts& costs, const cost::MachineModel& machine,
                     const cost::LinkModel& link);
StepPrediction predict(const Plan& plan, const StepShape& shape);
// Seconds of a step of the plan by one worker alone, which runs all shards and exchanges nothing.
double one_worker_seconds(const Plan& plan, const StepCosts& costs, const cost::Rates& rates);
// Seconds that all workers of the plan take to add `num_elems` gradients up.
double exchange_seconds(const Plan& plan, std::int64_t num_elems, const std::string& collective,
                        const cost::MachineModel& machine, const cost::LinkModel& link);

}  // namespace trireme::plan
