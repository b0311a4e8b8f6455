// Agreement: how replicas keep one model. One rule, one file, one row.
//
// The trainer runs a worker's steps and tells its rule: before the forward pass, when the gradient of a
// bucket is final on every local logical shard, and when all buckets of the step are dealt with. Rules know
// groups, letters, servers and vectors; they know no sockets, threads or files. All vectors of a bucket have
// the same layout (plan::Bucket): parameters at their offsets, then running statistics, then the metrics of
// the step.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "trireme/agree/options.h"
#include "trireme/base/json.h"
#include "trireme/codec/packer.h"
#include "trireme/collective/schedule.h"
#include "trireme/comm/group.h"
#include "trireme/comm/mailbox.h"
#include "trireme/comm/sum/gradient_sum.h"
#include "trireme/cost/traffic.h"
#include "trireme/runtime/runtime.h"
#include "trireme/server/client.h"
#include "trireme/server/server.h"
#include "trireme/tensor/tensor.h"

namespace trireme::agree {

// One bucket of one step on this worker.
struct BucketExchange {
  std::uint32_t step = 0;
  std::size_t bucket = 0;                   // position in RuleContext::weights
  std::vector<collective::LeafRun> owners;  // lock step: of logical shards, per worker
  // This worker's gradient, or its factors: f32. Under rules that update here it is what they apply at the
  // end; in lock step that is what the bucket's sum has.
  Tensor gradient;
};

// A step of this worker.
struct StepInfo {
  std::int64_t step = 0;  // its own count, from 0: the worker's clock
  float learning_rate = 0;
};

// What a rule knows of the vectors of a bucket, beside the weights.
struct RuleBucket {
  // The elements that are parameters, alignment included; running statistics and unused room follow. -1: all.
  std::int64_t parameter_elems = -1;
  codec::Coding coding;    // what they travel in
  codec::Packing packing;  // what of them is encoded, where the coding has a codec
  // Under rules over servers: they are not gradients but their factors, which the servers multiply.
  bool factored = false;
  std::string sum = "gather";                     // how encoded changes are added: a row of comm/sum
  comm::CodedSlots change_slots;                  // of their messages
  std::uint16_t mean_slot = 0, settled_slot = 0;  // of what workers add up after a period, and at an end
};

// What a rule needs; everything outlives the rule.
struct RuleContext {
  runtime::Runtime* rt = nullptr;
  comm::Group* workers = nullptr;     // the workers alone, in worker order
  comm::Mailbox* mail = nullptr;      // peer w is worker w; null for rules that send no letters
  server::Client* servers = nullptr;  // key b is bucket b; null where there are none
  int worker = 0, num_workers = 1;    // replicas; this is a rank of the first of these numbers
  std::uint64_t seed = 0;
  RuleOptions options;
  std::vector<Tensor> weights;                // per bucket, the live memory that the forward pass reads
  std::vector<RuleBucket> buckets = {};       // one per bucket, or none: options.coding for all
  std::vector<comm::GradientSum*> sums = {};  // per bucket, in lock step

  std::int64_t parameter_elems(std::size_t bucket) const;
};

// What the vectors of each bucket travel in.
std::vector<codec::Coding> codings_of(const RuleContext& context);

// Counts for summary.json and for tests that a mechanism was at work.
struct RuleReport {
  std::int64_t exchanges = 0;                      // of weights or updates with others
  std::map<std::int64_t, std::int64_t> staleness;  // of updates used: clocks behind -> how many
  // The rule's own: {"outer_steps": 12}. A summary adds the numbers of all workers up, except those that
  // `largest` names: it takes the largest of them.
  Json more = Json::object();
  std::vector<std::string> largest = {};
};

class Agreement {
 public:
  virtual ~Agreement() = default;
  // Before the forward pass: may wait (a bound on staleness) and may change the weights (a pull).
  virtual runtime::Task<Status> begin_step(StepInfo step);
  // Several buckets may be under way at once. Ends when what the worker applies is there (rules that update
  // here) or when the bucket needs nothing more of this worker. Fails with the group's verdict.
  virtual runtime::Task<Status> exchange(BucketExchange bucket) = 0;
  // All buckets of the step are exchanged and applied.
  virtual runtime::Task<Status> end_step(StepInfo step);
  // This worker has no step to take until the others have come too; settle() follows when they have. Nobody
  // shall wait for its steps meanwhile.
  virtual runtime::Task<Status> arrive();
  // Everything under way arrives; then the model that the rule has agreed on is written to `into` (per
  // bucket, layout as the weights). Every live worker calls it at the same time; the weights stay as they
  // are.
  virtual runtime::Task<Status> settle(std::vector<Tensor> into);
  // This worker takes no more steps; the others go on without it.
  virtual runtime::Task<Status> finish();
  // Between steps, elements of a bucket's weights from `begin` on were changed by `by`, not by this rule: the
  // ranks of a replica have one value of what all of them hold. What is remembered of these weights goes
  // along.
  virtual void on_moved(std::size_t /*bucket*/, std::int64_t /*begin*/, std::span<const float> /*by*/) {}
  // Another worker is gone (expendable workers only).
  virtual void on_lost(int /*worker*/) {}
  virtual RuleReport report() const { return {}; }
  // State beside the weights, for checkpoints: the centre of EASGD, outer velocities. Live memory; the same
  // names and shapes on every worker.
  virtual std::vector<std::pair<std::string, Tensor>> state() const { return {}; }
  // The same rule for one more replica of this worker, which steps on the same weights at the same time: it
  // is asked for steps only, everything else stays with this one. Null: the rule has no local replicas.
  virtual std::unique_ptr<Agreement> for_local_replica() { return nullptr; }
};

// How a rule's workers take their steps.
enum class Pace : std::uint8_t {
  kStep,    // all together, gradients are summed over the global batch (bsp)
  kPeriod,  // equally many steps each, meeting every `period` steps
  kBound,   // equally many steps each between meetings, but only as far together as the rule demands; the
            // others outlive one that dies (ssp, late)
  kFree,    // each at its own speed, whoever is free takes the next work; the others outlive one that dies
};

// Everything about a rule that others ask. Rows are in the files of their rules.
struct AgreementRow {
  const char* name = "";
  const char* doc = "";
  const char* paper = "";
  bool synchronous = false;
  Pace pace = Pace::kStep;
  bool needs_server = false;
  bool needs_peers = false;      // one worker alone has nobody to speak to
  bool updates_here = true;      // the worker runs the optimiser; false: the servers do
  const char* consistency = "";  // of its servers: a row of server/consistency; "" without
  std::span<const OptionSpec> options = {};
  // What does not go together among options that are in their ranges. Null: everything does.
  std::optional<OptionFault> (*check)(const OptionValues& options, int num_workers) = nullptr;
  // What of them does not go together with replicas of several ranks, each of which agrees with those that
  // have its place in other replicas. Null: everything does.
  std::optional<OptionFault> (*check_cut)(const OptionValues& options) = nullptr;
  std::unique_ptr<Agreement> (*make)(const RuleContext& context) = nullptr;
  // What it sends among several workers, or to servers, so that plans are priced without running it;
  // traffic_of (traffic.h) adds what the row says. Null: nothing.
  cost::Traffic (*traffic)(const OptionValues& options, int num_workers) = nullptr;
  // What its servers do beside what `consistency` says. Null: nothing.
  void (*serve)(const OptionValues& options, int num_workers, server::ServerOptions& servers) = nullptr;
  // Share of the workers whose end ends a round. Null: all of them.
  double (*quorum)(const OptionValues& options) = nullptr;
  // Whether whole updates are applied to weights that others have changed meanwhile. Null: they are not.
  bool (*applies_old_updates)(const OptionValues& options) = nullptr;
  bool shares_weights = false;  // all workers have one set of weights in shared memory
  // What travels are differences to a model that all know: what an encoding leaves out is part of the next.
  bool sends_differences = false;
  // Why what it sends is not encoded, and what to set instead: the end of the message that refuses a codec.
  // Null: it can be encoded (RuleOptions::coding). A rule that says nothing is refused codecs.
  const char* no_codec = "what it sends is not encoded; use parallel.codec = none";
};
std::span<const AgreementRow> agreement_table();
Result<const AgreementRow*> find_agreement(std::string_view name);

}  // namespace trireme::agree
