// Gradients of fully connected layers as their two factors (parallel.codec = "factors", docs/compression.md).
// In lock step every worker gets the factors of all logical shards, multiplies, and adds the products along
// the fixed tree over shards; under rules over servers these multiply (server_factors.h). Kernels and order
// are those of gradients that travel themselves, and so are the bits.
#pragma once

#include "trireme/comm/group.h"
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

// One worker's memory and exchanges of the buckets of factors. On the loop of one Runtime.
class FactorExchange {
 public:
  // Null where the plan has no such bucket.
  static Result<std::unique_ptr<FactorExchange>> make(runtime::Runtime& rt, comm::Group& group,
                                                      std::shared_ptr<const Prepared> prepared);
  ~FactorExchange();

  // Where backward of a logical shard writes its factors: output "factor:u:<p>" or "factor:v:<p>" -> memory.
  void bind(std::size_t bucket, std::int32_t shard, std::map<std::string, Tensor>& bindings) const;
  // The sum over shards, laid out as the weights; undefined while the bucket is exchanged.
  const Tensor& gradient(std::size_t bucket) const;
  // The factors of this worker's shards are there; ends when gradient() is. `owners` as in the plan. Several
  // buckets may be under way at once; they multiply in turn, since products are large.
  runtime::Task<Status> exchange(std::size_t bucket, std::uint32_t step,
                                 std::vector<collective::LeafRun> owners);

 private:
  struct Parts;
  explicit FactorExchange(std::unique_ptr<Parts> parts);
  std::unique_ptr<Parts> parts_;
};

// What FactorExchange computes for a bucket, and holds, on a worker that runs so many shards at once.
cost::OpCost factor_cost(const Prepared& prepared, std::size_t bucket, int shards_at_once);
std::int64_t factor_bytes(const Prepared& prepared, int shards_at_once);

}  // namespace trireme::prepare
