// What a model is and does, known without data and without running it: layers, parameters, work and depth.
// Pure. What it needs in memory is in memory_estimate.h.
//
// Work W and depth D are those of Ben-Nun and Hoefler, "Demystifying Parallel and Distributed Deep Learning"
// (2018): W elementary operations of a training step, D of them one after the other on any number of
// processors; W/D is the average parallelism. Flops count a multiply-add as two.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "trireme/cost/cost.h"
#include "trireme/job/job.h"
#include "trireme/model/zoo.h"

namespace trireme::prepare {

// The nodes whose names begin alike, with the gradients of those nodes.
struct LayerReport {
  std::string name;
  TensorType output;                        // of its last forward node
  std::int64_t parameters = 0;              // trained elements
  cost::OpCost forward, backward;           // of the whole shard
  std::int64_t weights_bytes = 0;           // |w|
  std::int64_t activations_bytes = 0;       // forward values that the backward pass reads
  std::int64_t weight_grads_bytes = 0;      // |grad w|
  std::int64_t activation_grads_bytes = 0;  // |grad o|: other values that the backward pass makes
  std::int64_t bytes() const {
    return weights_bytes + activations_bytes + weight_grads_bytes + activation_grads_bytes;
  }
};

// The longest chain of nodes that wait for each other.
struct CriticalPath {
  std::int64_t ops = 0;  // weighed 1 per node that runs
  double flops = 0;      // weighed by flops
  double depth = 0;      // weighed by the depth of each op: D of the whole step
};

struct WorkShare {
  std::string_view kind;  // "convolution", "fully connected", ...
  double flops = 0;
};

struct ModelReport {
  std::int64_t batch = 0;                                   // samples of the shard that the graphs are for
  std::vector<LayerReport> layers;                          // in the order of the forward pass
  std::int64_t parameters = 0, frozen = 0, statistics = 0;  // elements
  cost::OpCost forward, backward;                           // sums over nodes; use path.depth for D
  CriticalPath path;
  std::vector<WorkShare> shares;  // by kind of op, all kinds, in a fixed order

  double flops() const { return forward.flops + backward.flops; }
  double work() const { return forward.work + backward.work; }
  double flops_per_sample() const { return flops() / static_cast<double>(batch); }
  double parallelism() const { return path.depth > 0 ? work() / path.depth : 0; }  // W/D
};

// Layers are told apart by the first `levels` parts of their names; 0: by all of them.
Result<ModelReport> report_model(const model::ModelGraphs& graphs, std::int64_t batch, int levels);

}  // namespace trireme::prepare
