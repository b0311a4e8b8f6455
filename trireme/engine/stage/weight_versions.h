// WeightVersions: older versions of a stage's parameters, for micro-batches that go forward and back by the
// same weights while later ones are applied (weight stashing: Narayanan et al. 2019, "PipeDream"), unless
// weights are not stashed.
//
// A version is known by the updates before it, counted from when the pipeline began to fill. The newest one
// is where the optimizer writes; older ones are copies, made before an update and used again when nobody
// reads them any more.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "trireme/engine/weights.h"

namespace trireme::engine {

// On the loop of one Runtime, which outlives it, as do the weights.
class WeightVersions {
 public:
  WeightVersions(runtime::Runtime& rt, Weights& weights) : rt_(rt), weights_(weights) {}

  // Before the newest version is changed: a copy of it stays.
  runtime::Task<Status> keep();
  // It has been changed, or will be before anybody asks for it.
  void count_update() { ++newest_; }
  // Nobody asks for older ones any more.
  void forget_before(std::int64_t version);
  std::int64_t newest() const { return newest_; }
  // The newest, or one that was kept and not forgotten.
  exec::Variables& of(std::int64_t version);

 private:
  struct Copy {
    std::int64_t version = 0;
    std::vector<Tensor> vectors;  // per bucket
    exec::Variables variables;
  };
  Result<std::unique_ptr<Copy>> take_copy();

  runtime::Runtime& rt_;
  Weights& weights_;
  std::int64_t newest_ = 0;
  std::vector<std::unique_ptr<Copy>> kept_, free_;
};

}  // namespace trireme::engine
