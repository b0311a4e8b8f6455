// Local replicas of a worker (Chilimbi et al., Project Adam, OSDI 2014, sections 3.1 and 3.3): several
// replicas in one process train on one set of weights without locks, and the process talks to the servers for
// all of them, as a worker of downpour does for one:
//   each replica:   accrued <- accrued + g,  x <- x - lr g / N       whenever it has a gradient
//   the worker:     every n_push steps of all N replicas  w <- update(w, accrued / W), accrued <- 0
//                   every n_fetch steps                   x <- w
// x is shared and changed through racy.h: a replica reads it while others change it and while a fetch comes
// in, and steps that fall between another's reading and writing are lost, as in Hogwild. The servers get
// every gradient once: those of two replicas are added to a bucket of `accrued` one after the other. A local
// step counts 1/N, as in hogwild.cc, so that N of them go as far as one of downpour; a push counts 1/W per
// gradient.
//
// A push and the fetch behind it are a round, and replicas go on meanwhile. At most `in_flight` rounds are
// under way; a replica begins no step when the next round is due already and finds no room.
#include "trireme/agree/mechanism/local_replicas.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "trireme/agree/mechanism/racy.h"
#include "trireme/agree/mechanism/server_link.h"
#include "trireme/agree/mechanism/vector_math.h"
#include "trireme/runtime/sync.h"

namespace trireme::agree {
namespace {

using runtime::Task;

// The parameters that a gradient was computed on.
struct Base {
  std::int64_t fetch = 0;             // its number
  std::vector<std::int64_t> updates;  // that they contain, per bucket,
  std::int64_t pushes = 0;            // and pushes of this worker
};

// Gradients since the last push.
struct Accrual {
  std::vector<Tensor> sums;    // per bucket
  std::vector<int> gradients;  // in each sum
  std::vector<int> coming;     // replicas that add to it or wait for their turn
  std::vector<bool> busy;      // one adds
  Base base;                   // the oldest of all gradients in it
};

class LocalReplicas {
 public:
  explicit LocalReplicas(const RuleContext& context)
      : fetch_steps_(std::max<std::int64_t>(1, context.options.own.integer(kFetchSteps))),
        push_steps_(std::max<std::int64_t>(1, context.options.own.integer(kPushSteps))),
        in_flight_(std::max<std::int64_t>(1, context.options.own.integer(kInFlight))),
        num_replicas_(std::max<std::int64_t>(1, context.options.own.integer(kLocalReplicas))),
        push_scale_(1.0F / static_cast<float>(context.num_workers)),
        link_(context) {
    base_.updates.resize(link_.num_buckets());
    for (const Tensor& weights : context.weights) mark_racy(weights.raw(), weights.type().num_bytes());
  }

  Task<Status> begin(float rate, Base& base) {
    TR_CO_RETURN_IF_ERROR(make_memory());
    const TimeNs began = link_.rt().now();
    if (must_fetch_ && !std::exchange(fetching_, true)) link_.background().start(fetch_now());
    while (failure_.ok() && (must_fetch_ || (rounds_ >= in_flight_ && is_due()))) co_await change();
    TR_CO_RETURN_IF_ERROR(failure_);
    link_.note_wait(began);
    rate_ = rate;
    base = base_;
    if (running_++ > 0) ++steps_beside_others_;
    co_return Status();
  }

  Task<Status> exchange(BucketExchange bucket, float rate, const Base& base) {
    const std::size_t b = bucket.bucket;
    const Tensor gradient = bucket.gradient;
    co_await step_here(b, gradient, rate);
    co_await accrue(b, gradient, base);
    co_return Status();
  }

  void end() {
    --running_;
    ++local_steps_;
    ++accrued_steps_;
    ++steps_since_fetch_;
    start_round_when_due();
  }

  // Nothing stays here: gradients that are not pushed yet leave now.
  Task<Status> send_all() {
    TR_CO_RETURN_IF_ERROR(co_await link_.background().drain());
    steps_since_fetch_ = 0;  // the next step begins with a fetch
    if (accrued_steps_ > 0) start_round(/*pushes=*/true, /*fetches=*/false);
    co_return co_await link_.background().drain();
  }

  Task<Status> settle(std::vector<Tensor> into) {
    TR_CO_RETURN_IF_ERROR(co_await send_all());
    TR_CO_RETURN_IF_ERROR(co_await link_.settle(std::move(into)));
    must_fetch_ = true;
    fetching_ = false;
    co_return Status();
  }

  ServerLink& link() { return link_; }

  RuleReport report() const {
    RuleReport report = link_.report();
    report.more["fetches"] = fetches_;
    report.more["steps_beside_others"] = steps_beside_others_;
    if (link_.context().worker == 0) report.more["local_replicas"] = num_replicas_;
    return report;
  }

 private:
  bool is_due() const { return accrued_steps_ >= push_steps_ || steps_since_fetch_ >= fetch_steps_; }

  // Until something was added, has come back, or failed.
  Task<void> change() {
    const auto shot = std::make_shared<runtime::OneShot<bool>>(link_.rt());
    waiting_.push_back(shot);
    co_await shot->wait_until(kForever);  // all waits are for work of this process or for background tasks
  }
  void wake() {
    for (const auto& shot : std::exchange(waiting_, {})) shot->set(true);
  }

  Status make_memory() {
    if (accrual_ != nullptr) return {};
    for (std::int64_t i = 0; i <= in_flight_; ++i) {
      auto made = std::make_shared<Accrual>();
      TR_ASSIGN_OR_RETURN(made->sums, new_vectors_like(link_.rt(), link_.context().weights));
      made->coming.resize(link_.num_buckets());
      made->busy.resize(link_.num_buckets());
      clear(*made);
      spare_.push_back(std::move(made));
    }
    take_accrual();
    return {};
  }

  static void clear(Accrual& accrual) {
    accrual.gradients.assign(accrual.sums.size(), 0);
    accrual.base.fetch = std::numeric_limits<std::int64_t>::max();
  }

  std::shared_ptr<Accrual> take_accrual() {
    std::shared_ptr<Accrual> full = std::exchange(accrual_, spare_.back());
    spare_.pop_back();
    return full;
  }

  // Before the first step and after a meeting.
  Task<Status> fetch_now() {
    failure_ = co_await link_.pull_all(link_.context().weights, link_.clock());
    must_fetch_ = false;
    ++base_.fetch;
    for (std::size_t b = 0; b < link_.num_buckets(); ++b) base_.updates[b] = link_.version(b).updates;
    base_.pushes = pushes_;
    wake();
    co_return failure_;
  }

  Task<void> step_here(std::size_t b, Tensor gradient, float rate) {
    const float step = -rate / static_cast<float>(num_replicas_);
    PassBody body = [step](float* const* v, std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) racy_add(v[0] + i, step * v[1][i]);
    };
    std::vector<Tensor> vectors = {link_.context().weights[b], std::move(gradient)};
    const PassCost cost{.flops = 2, .reads = 2, .writes = 1};
    co_await run_pass(link_.rt(), cost, std::move(vectors), std::move(body), "local step",
                      link_.parameter_elems(b));
  }

  Task<void> accrue(std::size_t b, Tensor gradient, const Base& base) {
    const std::shared_ptr<Accrual> to = accrual_;  // a round that takes it waits for who is coming
    if (base.fetch < to->base.fetch) to->base = base;
    ++to->coming[b];
    while (to->busy[b]) co_await change();
    to->busy[b] = true;
    if (to->gradients[b]++ == 0)
      co_await copy(link_.rt(), std::move(gradient), to->sums[b]);
    else
      co_await add_scaled(link_.rt(), to->sums[b], 1, std::move(gradient));
    to->busy[b] = false;
    --to->coming[b];
    wake();
  }

  void start_round_when_due() {
    if (rounds_ < in_flight_ && is_due())
      start_round(accrued_steps_ >= push_steps_, steps_since_fetch_ >= fetch_steps_);
  }

  void start_round(bool pushes, bool fetches) {
    ++rounds_;
    std::shared_ptr<Accrual> sent;
    if (pushes) {
      sent = take_accrual();
      accrued_steps_ = 0;
      ++pushes_;
    }
    if (fetches) steps_since_fetch_ = 0;
    link_.background().start(run_round(std::move(sent), fetches));
  }

  // `sent`: what is pushed; null: nothing.
  Task<Status> run_round(std::shared_ptr<Accrual> sent, bool fetches) {
    const std::int64_t number = ++last_round_, own_pushes = pushes_;
    std::vector<std::int64_t> updates(link_.num_buckets());
    std::vector<Task<Status>> buckets;
    for (std::size_t b = 0; b < link_.num_buckets(); ++b)
      buckets.push_back(travel(sent, fetches ? &updates : nullptr, b, own_pushes));
    const Status status = co_await runtime::when_all(link_.rt(), std::move(buckets));
    --rounds_;
    if (!status.ok()) failure_ = status;
    if (status.ok() && fetches) {
      ++fetches_;
      if (number > newest_round_) base_ = {base_.fetch + 1, updates, own_pushes};
      newest_round_ = std::max(newest_round_, number);
    }
    if (sent != nullptr) {
      clear(*sent);
      spare_.push_back(std::move(sent));
    }
    if (status.ok()) start_round_when_due();
    wake();
    co_return status;
  }

  // Clocks number the pushes as they leave: servers drop those that come out of order, and a round may wait
  // here for a gradient while the next one leaves.
  Task<Status> travel(std::shared_ptr<Accrual> sent, std::vector<std::int64_t>* updates, std::size_t b,
                      std::int64_t own_pushes) {
    while (sent != nullptr && sent->coming[b] > 0) co_await change();
    const bool pushes = sent != nullptr && sent->gradients[b] > 0;
    if (pushes) {
      server::PushNote note;
      note.learning_rate = rate_;
      note.scale = push_scale_;
      note.based_on = sent->base.updates[b];
      link_.set_clock(link_.clock() + 1);
      TR_CO_RETURN_IF_ERROR(co_await link_.push(b, sent->sums[b], note));
    }
    if (updates == nullptr) co_return Status();
    TR_CO_RETURN_IF_ERROR(co_await link_.pull(b, link_.context().weights[b], link_.clock() + 1));
    (*updates)[b] = link_.version(b).updates;
    const std::int64_t own = pushes ? own_pushes - sent->base.pushes : 0;
    if (b == 0 && pushes) link_.note_staleness((*updates)[b] - sent->base.updates[b] - own);
    co_return Status();
  }

  const std::int64_t fetch_steps_, push_steps_, in_flight_, num_replicas_;
  const float push_scale_;
  Base base_;  // of the weights
  std::shared_ptr<Accrual> accrual_;
  std::vector<std::shared_ptr<Accrual>> spare_;
  std::vector<std::shared_ptr<runtime::OneShot<bool>>> waiting_;
  std::int64_t rounds_ = 0, last_round_ = 0, newest_round_ = 0;  // under way; numbers: of all, fetched
  std::int64_t accrued_steps_ = 0, steps_since_fetch_ = 0;       // of all replicas together
  std::int64_t pushes_ = 0, fetches_ = 0, local_steps_ = 0, steps_beside_others_ = 0;
  std::int64_t running_ = 0;  // replicas within a step
  float rate_ = 0;            // the newest
  bool must_fetch_ = true, fetching_ = false;
  Status failure_;
  ServerLink link_;  // last: its background tasks use the rest
};

// What one of the replicas sees. The worker's own calls (meetings, the report) go to the first.
class LocalReplica final : public Agreement {
 public:
  explicit LocalReplica(std::shared_ptr<LocalReplicas> all) : all_(std::move(all)) {}

  Task<Status> begin_step(StepInfo step) override {
    rate_ = step.learning_rate;
    return all_->begin(rate_, base_);
  }
  Task<Status> exchange(BucketExchange bucket) override {
    return all_->exchange(std::move(bucket), rate_, base_);
  }
  Task<Status> end_step(StepInfo) override {
    all_->end();
    co_return Status();
  }

  Task<Status> arrive() override {
    TR_CO_RETURN_IF_ERROR(co_await all_->send_all());
    all_->link().leave();
    co_return Status();
  }
  Task<Status> finish() override {
    TR_CO_RETURN_IF_ERROR(co_await all_->send_all());
    co_return co_await all_->link().finish();
  }
  Task<Status> settle(std::vector<Tensor> into) override { return all_->settle(std::move(into)); }
  void on_lost(int worker) override { all_->link().on_lost(worker); }
  RuleReport report() const override { return all_->report(); }
  std::vector<std::pair<std::string, Tensor>> state() const override { return all_->link().state(); }
  std::unique_ptr<Agreement> for_local_replica() override { return std::make_unique<LocalReplica>(all_); }

 private:
  std::shared_ptr<LocalReplicas> all_;
  Base base_;
  float rate_ = 0;
};

}  // namespace

std::unique_ptr<Agreement> make_local_replicas(const RuleContext& context) {
  return std::make_unique<LocalReplica>(std::make_shared<LocalReplicas>(context));
}

}  // namespace trireme::agree
