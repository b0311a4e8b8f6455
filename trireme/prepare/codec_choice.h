// What each gradient travels in where parallel.codec is "auto", and what every other way would cost: all
// parameters alike, or each by its own price (docs/compression.md). Made before step 1, by the cost model.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "trireme/prepare/prepared.h"

namespace trireme::prepare {

using TensorSendings = std::map<std::string, job::Sending>;  // by parameter; dense where it is missing

// How every parameter's gradient travels: in the words of parallel.codec.
std::map<std::string, std::string> codecs_of(const plan::Plan& plan);

// One way for one gradient: what a worker sends of it in a step, and what it adds to the exchanges of a step.
struct TensorPrice {
  job::Sending sending;
  std::string sum;
  double bytes_sent = 0, seconds = 0;
};
struct TensorPrices {
  std::string name;
  Shape shape;
  std::vector<TensorPrice> prices;  // of what can carry it; the first is dense
};

// `candidates`: what is thought of, dense first. Factors only where they are fewer bytes (plan::factors_pay).
Result<std::vector<TensorPrices>> price_tensors(const job::Job& job, const PrepareOptions& options,
                                                const Prepared& prepared,
                                                const std::vector<job::Sending>& candidates);

// The step of a logical shard, and of each parameter where it comes in.
struct ParameterCosts {
  struct One {
    std::int32_t needed_before = 0, final_after = 0;
    cost::OpCost update;
  };
  std::vector<cost::OpCost> strands;
  std::map<std::string, One> parameters;
  std::int32_t loss_after = -1;  // as StepCosts has it
};
// The costs of a plan with a bucket per parameter.
ParameterCosts by_parameter(const plan::Plan& alone, const plan::StepCosts& costs);
// The same step with the buckets of `plan`; what factors compute comes on top.
plan::StepCosts step_costs(const plan::Plan& plan, const ParameterCosts& costs);

// The plan whose step is predicted to take least, among the codecs that the job's tolerance allows. Gradients
// travel as they are unless that pays beyond what the model may be wrong by.
Result<plan::Plan> cheapest_plan(const job::Job& job, const PrepareOptions& options, const Prepared& prepared,
                                 const ParameterCosts& costs);

}  // namespace trireme::prepare
