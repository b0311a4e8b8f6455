// Which gradients travel as factors, and the graph that makes them.
#include <algorithm>

#include "trireme/agree/agree.h"
#include "trireme/prepare/factors.h"

namespace trireme::prepare {

bool factors_pay_at_servers(std::int64_t u_elems, std::int64_t v_elems, std::int64_t gradient_elems,
                            int servers) {
  return u_elems + v_elems * servers < gradient_elems;
}

bool servers_multiply(const plan::Plan& plan) {
  const auto rule = agree::find_agreement(plan.agreement);
  return rule.ok() && (*rule)->needs_server;
}

Status choose_factors(const graph::Graph& train, const plan::Plan& plan, int servers,
                      std::vector<plan::ParameterSize>& sizes) {
  std::vector<std::string> names;
  for (const plan::ParameterSize& p : sizes) names.push_back(p.name);
  TR_ASSIGN_OR_RETURN(const graph::FactoredGraph found, graph::factor_gradients(train, names));
  std::int64_t shards = 0;  // of the worker that has most
  for (const collective::LeafRun& run : plan.owners) shards = std::max<std::int64_t>(shards, run.count);
  for (plan::ParameterSize& p : sizes)
    for (const graph::FactoredGradient& f : found.factored) {
      const std::int64_t u = f.u.shape.num_elems(), v = f.v.shape.num_elems();
      const bool pays = servers > 0 ? factors_pay_at_servers(u, v, p.num_elems, servers)
                                    : plan::factors_pay(shards * (u + v), p.num_elems, plan.workers());
      if (f.parameter == p.name && pays) p.u_elems = u, p.v_elems = v;
    }
  return {};
}

std::vector<std::string> factored_parameters(const plan::Plan& plan) {
  std::vector<std::string> names;
  for (const plan::Bucket& b : plan.buckets)
    if (b.sends_factors()) names.insert(names.end(), b.parameters.begin(), b.parameters.end());
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
    for (std::size_t p = 0; b.sends_factors() && p < b.parameters.size(); ++p) {
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

cost::OpCost factor_cost(const Prepared& prepared, std::size_t bucket, int shards_at_once) {
  return comm::products_cost(prepared.products[bucket], prepared.plan.logical_shards, shards_at_once);
}

std::int64_t factor_bytes(const Prepared& prepared, int shards_at_once) {
  const plan::Plan& plan = prepared.plan;
  const bool elsewhere = servers_multiply(plan);
  std::int64_t elems = 0;
  for (const plan::Bucket& b : plan.buckets)
    if (b.sends_factors())
      elems += elsewhere ? b.factor_elems : plan.logical_shards * b.factor_elems + b.num_elems;
  std::vector<Compiled> products;
  for (const auto& of_bucket : prepared.products)
    products.insert(products.end(), of_bucket.begin(), of_bucket.end());
  if (elsewhere || products.empty()) return 4 * elems;
  return 4 * elems + comm::products_bytes(products, plan.logical_shards, shards_at_once);
}

}  // namespace trireme::prepare
