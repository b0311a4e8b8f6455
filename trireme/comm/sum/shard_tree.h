// The part of the fixed tree over logical shards that one worker can add alone.
#pragma once

#include <span>
#include <vector>

#include "trireme/collective/schedule.h"
#include "trireme/tensor/tensor.h"

namespace trireme::comm {

// to += from, of f32 vectors of one size.
void add_vector(const Tensor& to, const Tensor& from);

// Adds the leaves of `node` into its first leaf's vector, in the order of the tree. `shards` are the f32
// vectors of `run`, which holds the whole node.
void add_tree_node(std::span<const Tensor> shards, collective::LeafRun run, collective::TreeNode node);

// Adds the maximal aligned subtrees of the run, each into its first leaf's vector; returns these vectors, in
// order: what Group::allreduce_tree takes. Sizes only where the vectors are phantoms.
std::vector<Tensor> add_own_shards(std::span<const Tensor> shards, collective::LeafRun run,
                                   std::int32_t num_shards);

}  // namespace trireme::comm
