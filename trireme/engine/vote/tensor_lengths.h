// TensorLengths: how long the tensors are that the tiles of a replica have pieces of, for optimizers with a
// rate per tensor (model::TensorRate).
//
// Before a bucket is updated its tiles add the squares of their pieces along the fixed tree over tiles: all
// have the same rates, to the same bits for any number of ranks. What every tile has whole is no piece.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "trireme/comm/group.h"
#include "trireme/model/optimizer.h"
#include "trireme/plan/slots.h"

namespace trireme::engine {

// On the loop of one Runtime.
class TensorLengths {
 public:
  // f32, in host memory: the piece, and the sum of its gradients, where they are at find().
  struct Piece {
    std::string parameter;
    Tensor weights, gradient;
  };
  // `tiles`: the ranks that hold the tiles of this rank's replica.
  TensorLengths(runtime::Runtime& rt, comm::Group& tiles, model::OptimizerSpec spec)
      : rt_(rt), tiles_(tiles), spec_(std::move(spec)) {}

  // The pieces of a bucket, in an order that all tiles have. `slot` is the bucket's own.
  Status add(std::size_t bucket, plan::Slot slot, std::vector<Piece> pieces);
  // f32 scalar: what find() came to for a piece of the bucket.
  Tensor rate(std::size_t bucket, std::size_t piece) const { return buckets_.at(bucket).rates[piece]; }
  // The rates of the bucket's tensors, whose gradients count `clip` times. All tiles call it; nothing is done
  // where the bucket has no pieces.
  runtime::Task<Status> find(std::size_t bucket, std::uint32_t step, float clip);

 private:
  struct Block {
    const float* values;
    std::int64_t count;
    std::size_t place;  // in the squares
  };
  struct Bucket {
    plan::Slot slot = 0;
    std::vector<Piece> pieces;
    std::vector<model::TensorRate> rules;
    std::vector<Block> blocks;
    std::vector<double> of_blocks;
    Tensor squares;  // of weights and gradient, per piece
    std::vector<Tensor> rates;
  };
  runtime::Task<void> add_squares(Bucket& of);

  runtime::Runtime& rt_;
  comm::Group& tiles_;
  const model::OptimizerSpec spec_;
  std::map<std::size_t, Bucket> buckets_;
};

}  // namespace trireme::engine
