// Which gradients travel as their two factors (parallel.codec = "factors", docs/compression.md), and the
// graphs that make and multiply them. In lock step every worker multiplies (comm/sum/factors.h); under rules
// over servers these do (server_factors.h).
#pragma once

#include "trireme/comm/sum/factors.h"
#include "trireme/graph/pass/factor_gradients.h"
#include "trireme/prepare/prepared.h"

namespace trireme::prepare {

// Which parameters travel so: their gradient in `train`, the graph of a shard, is a product, and its factors
// pay: among peers, or at as many servers. Fills in u_elems and v_elems of `sizes`.
Status choose_factors(const graph::Graph& train, const plan::Plan& plan, int servers,
                      std::vector<plan::ParameterSize>& sizes);

// Where `servers` keep a part of the rows each and multiply (Chilimbi et al., Project Adam, OSDI 2014), each
// needs its rows of u and all of v: K (M + S N) numbers from a worker instead of M N.
bool factors_pay_at_servers(std::int64_t u_elems, std::int64_t v_elems, std::int64_t gradient_elems,
                            int servers);

// Whether the products of the plan's factors are made by servers, not by the workers.
bool servers_multiply(const plan::Plan& plan);

// Parameters that travel as factors, in the order of the buckets.
std::vector<std::string> factored_parameters(const plan::Plan& plan);

// The graph of a shard as the plan's buckets have it; and per bucket, per parameter the product.
struct FactoredTrain {
  graph::Graph graph;
  std::vector<std::vector<graph::Graph>> products;  // empty for other buckets
};
Result<FactoredTrain> factor_as_planned(const graph::Graph& train, const plan::Plan& plan);

// The way of comm/sum for the buckets of factors: what it computes for a bucket, and holds, on a worker that
// runs so many shards at once. Its products are those of `prepared`.
cost::OpCost factor_cost(const Prepared& prepared, std::size_t bucket, int shards_at_once);
std::int64_t factor_bytes(const Prepared& prepared, int shards_at_once);

}  // namespace trireme::prepare
