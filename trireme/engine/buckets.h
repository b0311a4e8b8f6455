// Buckets: what happens to a bucket of a step once its gradients are final: its exchange by the rule, and its
// update. With full overlap those of a step end while the next one runs.
#pragma once

#include <map>
#include <memory>
#include <vector>

#include "trireme/agree/agree.h"
#include "trireme/engine/bucket_queue.h"
#include "trireme/engine/loss_watch.h"
#include "trireme/engine/shard_runs.h"
#include "trireme/engine/updates.h"
#include "trireme/plan/slots.h"
#include "trireme/runtime/sync.h"

namespace trireme::engine {

struct BucketsOptions {
  const plan::Plan* plan = nullptr;
  comm::Group* group = nullptr;
  agree::Agreement* rule = nullptr;
  const BucketSums* sums = nullptr;
  LossWatch* loss = nullptr;
  ShardRuns* runs = nullptr;
  Updates* updates = nullptr;
  const StepTrace* trace = nullptr;
  const std::vector<collective::LeafRun>* owners = nullptr;
  bool shared = false;  // weights: all workers meet after an update
};

// On the loop of one Runtime; all that the options point to outlives it.
class Buckets {
 public:
  Buckets(runtime::Runtime& rt, BucketsOptions options);

  // All shards have written the bucket: it leaves in its turn.
  void is_final(const StepInput& step, std::size_t bucket);
  // Those that have been applied, which the next step may use at once.
  std::vector<std::size_t> applied() const;
  // The last bucket, which has the metrics and is what the next step needs first, is there.
  runtime::Task<Status> wait_for_metrics();
  // Nothing is under way. Exchanges that began use the shards' memory: they end with the group's verdict.
  runtime::Task<Status> wait_for_all();
  // The step fails; those that wait never begin. A bucket that failed brought the group's verdict; anything
  // else is this rank's own failure.
  runtime::Task<Status> fail(Status status);
  // Where updates wait for all buckets, which are there.
  runtime::Task<Status> update_all(StepOutput& out);
  // By parameter, f32 vectors: added to the sum of gradients of the next step. The same on all workers.
  void add_to_next(const std::map<std::string, Tensor>& kept);

 private:
  const plan::Plan& plan() const { return *o_.plan; }
  plan::Slots slots() const { return {plan().buckets.size()}; }
  bool gated() const { return plan().overlap == plan::Overlap::kFull; }
  void start();
  runtime::Task<void> run(std::size_t bucket);
  runtime::Task<Status> exchange(std::size_t bucket);
  void add_kept(std::size_t bucket);
  runtime::Task<Status> meet(std::uint16_t slot);
  void has_ended(std::size_t bucket, const Status& status);

  runtime::Runtime& rt_;
  const BucketsOptions o_;
  BucketQueue queue_;
  std::vector<bool> travelling_;  // final, not applied yet
  StepInput step_;                // that they belong to
  Status failure_;
  std::unique_ptr<runtime::OneShot<bool>> ended_;     // while somebody waits
  std::vector<std::map<std::int64_t, Tensor>> kept_;  // per bucket: what is added to its next sum, by offset
};

}  // namespace trireme::engine
