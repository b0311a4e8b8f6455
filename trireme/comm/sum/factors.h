// factors: gradients of fully connected layers as their two factors (docs/compression.md). Every worker gets
// the factors of all logical shards, multiplies, and adds the products along the fixed tree over shards.
// Kernels and order are those of gradients that travel themselves, and so are the bits.
#pragma once

#include <deque>
#include <span>

#include "trireme/comm/sum/gradient_sum.h"
#include "trireme/runtime/sync.h"

namespace trireme::comm {

using Product = std::shared_ptr<const exec::CompiledGraph>;
TensorType factor_type(const Product& product, const char* input);  // "u" or "v"
TensorType product_type(const Product& product);

// Where products are made: memory that all buckets of factors share, since products are as large as the
// weights. They multiply in turn. On the loop of one Runtime.
class FactorScratch {
 public:
  // `products` of all buckets; `at_once`: shards that a worker computes at the same time.
  static Result<std::shared_ptr<FactorScratch>> make(runtime::Runtime& rt, std::span<const Product> products,
                                                     std::int32_t num_shards, int at_once, int threads);

  // Several shards are multiplied at once, each into a lane; nodes of the tree that wait for their right half
  // have a place of their own.
  const std::vector<Tensor>& lanes() const { return lanes_; }
  const std::vector<Tensor>& waiting() const { return waiting_; }
  int threads() const { return threads_; }
  runtime::Task<void> take_turn();
  void end_turn();

 private:
  explicit FactorScratch(runtime::Runtime& rt, int threads) : rt_(rt), threads_(threads) {}
  runtime::Runtime& rt_;
  const int threads_;
  std::vector<Tensor> lanes_, waiting_;
  bool busy_ = false;
  std::deque<runtime::OneShot<bool>*> turns_;
};

// What the products of one bucket cost a worker, and what those of all buckets hold beside factors and sums.
cost::OpCost products_cost(std::span<const Product> products, std::int32_t num_shards, int at_once);
std::int64_t products_bytes(std::span<const Product> products, std::int32_t num_shards, int at_once);

}  // namespace trireme::comm
