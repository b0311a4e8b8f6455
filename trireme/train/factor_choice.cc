// Which gradients travel as factors, and the graph that makes them.
#include <algorithm>

#include "trireme/agree/agree.h"
#include "trireme/train/factors.h"

namespace trireme::train {

Status can_send_factors(const Job& job) {
  TR_ASSIGN_OR_RETURN(const agree::AgreementRow* rule, agree::find_agreement(job.parallel.agreement));
  const auto no = [](const std::string& why) {
    return error(Code::kInvalid, "[job] parallel.codec = \"factors\": {}", why);
  };
  if (rule->pace != agree::Pace::kStep || rule->needs_server || !rule->updates_here)
    return no(
        fmt::format("workers multiply the factors of one step, and under agreement '{}' they have none in "
                    "common; use parallel.agreement = \"bsp\"",
                    rule->name));
  if (job.train.optimizer.max_batch_multiplier > 1)
    return no("factors of several batches cannot be added up; use train.optimizer.max_batch_multiplier = 1");
  if (job.train.precision != "f32")
    return no(fmt::format("products in {} are rounded after they are made; use train.precision = \"f32\"",
                          job.train.precision));
  const Job::Parallel& p = job.parallel;
  if (p.codec_feedback || p.codec_momentum || p.codec_least || p.codec_dense_steps || p.codec_pull)
    return no("factors are sent as they are, so nothing of codec_* is for them; leave these keys out");
  return {};
}

Status choose_factors(const graph::Graph& train, const plan::Plan& plan,
                      std::vector<plan::ParameterSize>& sizes) {
  std::vector<std::string> names;
  for (const plan::ParameterSize& p : sizes) names.push_back(p.name);
  TR_ASSIGN_OR_RETURN(const graph::FactoredGraph found, graph::factor_gradients(train, names));
  std::int64_t shards = 0;  // of the worker that has most
  for (const collective::LeafRun& run : plan.owners) shards = std::max<std::int64_t>(shards, run.count);
  for (plan::ParameterSize& p : sizes)
    for (const graph::FactoredGradient& f : found.factored) {
      const std::int64_t u = f.u.shape.num_elems(), v = f.v.shape.num_elems();
      if (f.parameter == p.name && plan::factors_pay(shards * (u + v), p.num_elems, plan.workers()))
        p.u_elems = u, p.v_elems = v;
    }
  return {};
}

std::vector<std::string> factored_parameters(const plan::Plan& plan) {
  std::vector<std::string> names;
  for (const plan::Bucket& b : plan.buckets)
    if (b.codec == plan::kFactors) names.insert(names.end(), b.parameters.begin(), b.parameters.end());
  return names;
}

Result<FactoredTrain> factor_as_planned(const graph::Graph& train, const plan::Plan& plan) {
  const std::vector<std::string> names = factored_parameters(plan);
  FactoredTrain out{train, std::vector<std::vector<graph::Graph>>(plan.buckets.size())};
  if (names.empty()) return out;
  TR_ASSIGN_OR_RETURN(graph::FactoredGraph found, graph::factor_gradients(train, names));
  out.graph = std::move(found.graph);
  for (std::size_t i = 0; i < plan.buckets.size(); ++i) {
    const plan::Bucket& b = plan.buckets[i];
    for (std::size_t p = 0; b.codec == plan::kFactors && p < b.parameters.size(); ++p) {
      const auto f = std::find_if(found.factored.begin(), found.factored.end(),
                                  [&](const auto& g) { return g.parameter == b.parameters[p]; });
      if (f == found.factored.end())
        return error(Code::kCorrupt, "[plan] bucket {} has factors of '{}', whose gradient is no product",
                     b.slot, b.parameters[p]);
      if (b.factor_offsets[2 * p] + f->u.shape.num_elems() > b.factor_elems ||
          b.factor_offsets[2 * p + 1] + f->v.shape.num_elems() > b.factor_elems)
        return error(Code::kCorrupt, "[plan] bucket {} has no room for the factors of '{}': got {} elements",
                     b.slot, b.parameters[p], b.factor_elems);
      out.products[i].push_back(std::move(f->product));
    }
  }
  return out;
}

}  // namespace trireme::train
