// What a job asks of the other modules: its model, data, optimiser and schedule in their own words. Pure.
#pragma once

#include <string>

#include "trireme/agree/options.h"
#include "trireme/data/source.h"
#include "trireme/job/job.h"
#include "trireme/job/sending.h"
#include "trireme/model/optimizer.h"
#include "trireme/model/schedule.h"
#include "trireme/model/zoo.h"

namespace trireme::job {

// `cache_dir`: where drawn and decoded samples may be kept; empty: nowhere.
data::DataSpec data_spec(const Job& job, std::string cache_dir);

// What a sample of the job's kind of data is.
data::SampleForm sample_form(const Job& job);

// The numbers of model.options. kInvalid names one that is no number.
Result<model::ModelOptions> model_options(const Job& job);
// What the model is trained to do: as model.task says; auto: as the zoo and the data say.
model::ModelTask task_of(const Job& job);
// What the model reads. kInvalid: the task needs what the data does not have.
Result<model::ModelInput> model_input(const Job& job, const data::Dataset& data);
// Graphs for shards of `shard_batch` samples, of the zoo or by layers, in the job's precision, with frozen
// layers.
Result<model::ModelGraphs> build_job_model(const Job& job, const model::ModelInput& input,
                                           std::int64_t shard_batch);

model::OptimizerSpec optimizer_spec(const Job& job, const Sending& sending);
model::OptimizerSpec optimizer_spec(const Job& job);  // as the job says
model::Schedule schedule_of(const Job& job);
double peak_rate(const Job::Optimizer& optimizer);
// Whether whole updates are applied to weights that others have changed meanwhile: by servers, or by peers.
// That alone acts like momentum (Mitliagkas, Zhang, Hadjis, Re, "Asynchrony begets momentum", 2016); with as
// much again most jobs diverge, so the default momentum is 0 there.
bool uses_old_updates(const Job& job);
// The coefficient of the optimizers momentum and nesterov, given or by default; 0 for others.
double momentum_of(const Job& job);
// What the job's agreement is told.
agree::RuleOptions rule_options(const Job& job, const Sending& sending);
agree::RuleOptions rule_options(const Job& job);  // as the job says
// What parallel.codec = "auto" chooses from, by parallel.codec_tolerance; the first is dense.
std::vector<Sending> allowed_sendings(const Job& job);
inline constexpr OptionSpec kRank{.name = "rank",
                                  .default_value = 2,
                                  .doc = "powersgd: rank of the approximation (default 2).",
                                  .range = {.least = 1, .most = 64}};
// What encoders are told: no row where no codec of single values is at work. The short form is of what the
// job asks for, where nothing is to be chosen.
codec::Coding coding_of(const Job& job, const Sending& sending);
codec::Coding coding_of(const Job& job);
// What sums of low rank are told (comm/sum/low_rank.cc).
struct LowRankOptions {
  std::int64_t rank = 2, least_elems = 0, dense_steps = 0;
  bool feedback = true;
};
LowRankOptions low_rank_options(const Job& job);
// How a job with a codec starts: as it says, or as the codec wants it where it is run in lock step.
struct CodedStart {
  std::int64_t dense_steps = 0;   // not encoded
  std::int64_t warmup_steps = 0;  // over which the fraction falls to its value
  double momentum = 0;            // made by encoders
};
CodedStart coded_start(const Job& job, const Sending& sending);
// Whether encoders make the optimizer's momentum, once they begin (codec_momentum).
bool encoders_make_momentum(const Job& job, const Sending& sending);

// Whether a step knows something about all gradients before the first weight changes (clipping, skipping,
// loss scaling), so that updates wait for all buckets.
bool waits_for_all(const Job& job);

// Whether the replicas of a job can have one set of weights (own_update.h), or one per part of the model that
// is cut; the reason if they cannot.
Status can_share_weights(const Job& job, const Sending& sending, const std::string& transport, int replicas);

// kInvalid, with the reason, where the job asks for something that factors cannot do.
Status can_send_factors(const Job& job);

}  // namespace trireme::job
