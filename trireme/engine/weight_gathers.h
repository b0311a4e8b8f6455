// WeightGathers: brings weights together of which every replica has a part (parallel.zero): after an update,
// or, where parameters are divided too (level 3), before a graph reads them.
//
// Level 3: a step has a list of gathers (prepare::Prepared::gathers), which all replicas begin in its order,
// one ahead of the one whose layers run. A bucket's parameters lie where they always do; what other replicas
// have of them takes memory only from its gather to the end of those that read it.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "trireme/comm/group.h"
#include "trireme/engine/shard_runs.h"
#include "trireme/engine/weights.h"
#include "trireme/plan/slots.h"
#include "trireme/runtime/sync.h"

namespace trireme::engine {

struct WeightGathersOptions {
  const prepare::Prepared* prepared = nullptr;
  comm::Group* peers = nullptr;  // those that have parts of the same weights, by replica
  Weights* weights = nullptr;
  const ShardRuns* runs = nullptr;
};

// On the loop of one Runtime; all that the options point to outlives it.
class WeightGathers {
 public:
  WeightGathers(runtime::Runtime& rt, const WeightGathersOptions& options) : rt_(rt), o_(options) {}

  // Levels 1 and 2: this replica has updated its part of a bucket; ends when those of all others are there.
  runtime::Task<Status> after_update(std::size_t bucket, std::uint32_t step);

  // Level 3, in a step: a batch begins, which is the `batch`-th of the step.
  void begin(std::uint32_t step, std::uint16_t batch);
  // A shard has come to a notice of the train graph.
  void on_notice(int notice);
  // Nothing can run until further gates open.
  void on_held();
  // Nothing is under way. Bounded by the group.
  runtime::Task<void> drained();
  // What ended the gathers, and with them the shards' runs.
  const Status& failure() const { return failure_; }

  // Level 3, between steps: everything is there, until it is given back.
  runtime::Task<Status> gather_all(std::uint32_t step);
  void give_back_all();
  bool divides_parameters() const { return plan().zero_level() == 3; }

  // Level 3, where stages know themselves what they read when (stage/segment_weights.h): one bucket, in the
  // `number`-th gather of a step or of an evaluation.
  struct Number {
    std::uint32_t step = 0;
    std::uint16_t number = 0;
    bool of_evaluation = false;
  };
  runtime::Task<Status> bring(std::size_t bucket, Number number);
  void give_back(std::size_t bucket) { o_.weights->give_back_others(bucket); }
  // This rank cannot go on, so gathers that are under way end.
  void fail(std::string operation, const Status& why) {
    if (o_.peers->verdict().ok()) o_.peers->fail(std::move(operation), std::string(why.message()));
  }
  std::size_t num_buckets() const { return plan().buckets.size(); }

 private:
  const plan::Plan& plan() const { return o_.prepared->plan; }
  const std::vector<prepare::WeightGather>& list() const { return o_.prepared->gathers; }
  runtime::Task<Status> gather(std::size_t bucket, comm::Call call);
  runtime::Task<void> run(std::size_t at);
  bool may_start_next() const;
  void start();
  void start_next();

  runtime::Runtime& rt_;
  const WeightGathersOptions o_;
  // The batch under way:
  std::uint32_t step_ = 0;
  std::uint16_t batch_ = 0;
  std::size_t next_ = 0;           // of the list
  int live_ = 0;                   // begun, and not given back
  std::vector<std::size_t> left_;  // per entry: notices to come until it is given back
  int under_way_ = 0;
  Status failure_;
  std::unique_ptr<runtime::OneShot<bool>> ended_;  // while somebody waits
};

}  // namespace trireme::engine
