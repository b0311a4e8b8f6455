// parallel.codec = "auto" while a run goes on: between runs of steps all workers compare what their steps
// took with what the plan believed, and where links or machines turn out to be others the choice is made
// again. Never where train.logical_shards is set: the bits belong to the job there.
#pragma once

#include <map>
#include <optional>

#include "trireme/comm/group.h"
#include "trireme/prepare/codec_choice.h"
#include "trireme/train/rank_context.h"

namespace trireme::train {

inline constexpr std::int64_t kLookSteps = 64;  // between two looks
inline constexpr std::int64_t kWarmSteps = 8;   // first ones, which are not measured

// Means over a run of steps, of the slowest worker.
struct MeasuredStep {
  double compute_seconds = 0, step_seconds = 0;
};

// Rates at which the plan's step would take what was measured: the machine's speed by the computation, that
// of the links by the rest. What is hidden behind the computation tells nothing about the links, and they
// stay.
cost::Rates fitted_rates(const plan::Plan& plan, const plan::StepCosts& costs, const cost::Rates& rates,
                         const MeasuredStep& measured);

// Rank 0's memory of what was tried. Pure but for compiling.
class CodecKeeper {
 public:
  struct Decision {
    std::optional<plan::Plan> plan;  // another one than before
    std::string why;
  };
  // After a look at `measured`, steps of `prepared`. `options` as the run started with.
  Result<Decision> decide(const job::Job& asked, const prepare::Prepared& prepared,
                          prepare::PrepareOptions options, const MeasuredStep& measured);

 private:
  std::optional<plan::Plan> better_one(const MeasuredStep& dense) const;

  std::map<std::string, plan::Plan> tried_;
  std::map<std::string, double> measured_;   // seconds of a step by codec
  double link_scale_ = 1, speed_scale_ = 1;  // of the rates that the last choice was made with
  int changes_ = 0;
  bool settled_ = false;  // by measurement of both
};

// Whether a run may change its codecs at all.
bool chooses_again(const job::Job& asked, const plan::Plan& plan, int world);

// All workers, between the same two steps: rank 0 decides by the slowest one's times. Null: nothing changes.
struct CodecLook {
  std::int64_t step = 0;
  MeasuredStep own;
  CodecKeeper* keeper = nullptr;  // rank 0's
};
struct CodecChange {
  std::shared_ptr<const prepare::Prepared> prepared;
  std::string why;
};
runtime::Task<Result<CodecChange>> agree_on_codecs(RankContext& context, comm::Group& group,
                                                   std::shared_ptr<const prepare::Prepared> now,
                                                   CodecLook look);
// All workers: what their encoders kept back so far, summed over all, by parameter; for the update of the
// next step. `state` as Agreement::shard_state().
runtime::Task<Result<std::map<std::string, Tensor>>> sum_residuals(
    comm::Group& group, const plan::Plan& plan, const std::vector<model::Parameter>& parameters,
    std::vector<std::pair<std::string, Tensor>> state, std::int64_t step);

}  // namespace trireme::train
