// Low-rank sums: PowerSGD (Vogels, Karimireddy, Jaggi, "PowerSGD: practical low-rank gradient compression for
// distributed optimization", NeurIPS 2019), one bucket.
//
// A matrix M_s = g_s + e_s of shard s, n x k, travels as two thin ones: P = sum_s M_s Q, made orthonormal;
// then Q <- sum_s M_s^T P, kept for the next step (warm start). The gradient is P Q^T, and what the shard did
// not send stays with it: e_s <- M_s - P (M_s^T P)^T. Both sums are plain sums over shards, so the bits do
// not depend on the number of workers. Where the paper takes the mean of workers these are sums of shares of
// one mean.
#pragma once

#include "trireme/agree/agree.h"

namespace trireme::agree {

struct LowRankOptions {
  std::vector<Matrix> matrices;     // of the bucket's vectors
  std::vector<codec::Piece> plain;  // what travels as it is
  std::int64_t num_elems = 0;       // of the vectors
  std::int64_t rank = 2;
  bool feedback = true;
  std::uint64_t key = 0;  // of the first Q
};

class LowRank {
 public:
  LowRank(runtime::Runtime& rt, LowRankOptions options);

  Status take_shards(collective::LeafRun run);
  // "residual" and "basis" (Q, the same for all shards).
  std::vector<std::pair<std::string, Tensor>> state() const;

  // First turn: vectors to be summed over all shards into the first, one per shard of this worker.
  runtime::Task<Result<std::vector<Tensor>>> project(std::vector<Tensor> gradients);
  // Second turn, after the sum is in the first vector of the first turn.
  runtime::Task<Result<std::vector<Tensor>>> project_back(std::vector<Tensor> gradients);
  // After the second sum: gradients[0] becomes the sum over all shards.
  runtime::Task<Status> rebuild(std::vector<Tensor> gradients);

 private:
  struct Place {
    Matrix matrix;
    std::int64_t rank = 0, p = 0, q = 0;  // where its P (columns one after the other) and Q begin
  };
  using Body = std::function<void(std::size_t, const Place&)>;  // shard, matrix
  double work() const;
  runtime::Task<void> for_each(std::size_t shards, Body body, const char* label);
  runtime::Task<void> for_each(std::size_t shards, double flops, Body body, const char* label);

  runtime::Runtime& rt_;
  LowRankOptions o_;
  std::vector<Place> places_;
  std::int64_t p_elems_ = 0, q_elems_ = 0, plain_elems_ = 0;
  collective::LeafRun run_;
  Tensor residual_, basis_;
  std::vector<Tensor> first_, second_;  // per shard
};

}  // namespace trireme::agree
