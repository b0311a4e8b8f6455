// Downpour SGD (Dean et al. 2012, algorithm 1.1): every n_fetch steps a replica asks for the parameters,
// every n_push steps it sends the gradients accrued since the last time, and between these it takes plain SGD
// steps of its own:
//   accrued <- accrued + g,  x <- x - lr g;  push: w <- update(w, accrued / W), accrued <- 0;  fetch: x <- w
// The servers run the optimiser (the paper: AdaGrad). Nobody waits for another replica. What a replica takes
// a step on is 1/W of a batch, for which the job's rate is meant, so W of these steps go as far as one of
// bsp; the paper leaves the factor to the rate.
//
// A round is what leaves at the end of a step: its push, then its fetch, bucket by bucket as they become
// final. At most `in_flight` rounds are under way: with 1 a step begins when the round of the step before is
// back, with more it begins with the newest parameters that are there, and the round travels while it
// computes. What a fetch brings replaces the replica's own steps, as in the paper.
//
// Warm start: worker 0 alone takes the first `warm_start_steps` steps; the others begin
// when it has, or when it comes to a meeting before.
#include <algorithm>
#include <utility>

#include "trireme/agree/mechanism/local_replicas.h"
#include "trireme/agree/mechanism/server_link.h"
#include "trireme/agree/mechanism/vector_math.h"
#include "trireme/agree/traffic.h"
#include "trireme/comm/letter_kinds.h"

namespace trireme::agree {
namespace {

using runtime::Task;

constexpr OptionSpec kWarmStartSteps{
    .name = "warm_start_steps",
    .default_value = 0,
    .doc = "Steps that the first worker makes alone before the others join (default 0).",
    .range = kStepCount};
constexpr OptionSpec kOptions[] = {kFetchSteps, kPushSteps, kInFlight, kWarmStartSteps, kLocalReplicas};

std::optional<OptionFault> check(const OptionValues& options, int) {
  if (options.integer(kLocalReplicas) == 1 || options.integer(kWarmStartSteps) == 0) return std::nullopt;
  return OptionFault{kWarmStartSteps.name, "0 where parallel.local_replicas is above 1: they begin together"};
}

std::optional<OptionFault> check_cut(const OptionValues& options) {
  if (options.integer(kLocalReplicas) == 1) return std::nullopt;
  return OptionFault{kLocalReplicas.name, "1: replicas that step on one set of weights are one rank each"};
}

cost::Traffic traffic(const OptionValues& options, int num_workers) {
  cost::Traffic t = to_servers(options, num_workers);
  // A push and a fetch cost the same; each at its own interval.
  t.every = 2 / (1 / steps_between(options, kPushSteps) + 1 / steps_between(options, kFetchSteps));
  t.hidden = options.integer(kInFlight) > 1;
  return t;
}

// To worker 0: tell me when I may begin.
struct WarmHead {
  static constexpr std::uint16_t kKind = comm::kLetterRuleFirst + 14;
  static constexpr auto kFields = comm::head_fields();
  using Answer = comm::EmptyHead;
};

// What leaves at the end of a step. Where more than one is under way it has memory of its own.
struct Round {
  std::vector<Tensor> accrued, fetched;  // per bucket
  std::vector<std::int64_t> updates;     // that the fetched parameters contain, per bucket,
  std::int64_t own_pushes = 0;           // and pushes of this worker
  // The same of the parameters that its newest gradient was computed on.
  std::vector<std::int64_t> base_updates;
  std::int64_t base_pushes = 0;
  std::size_t left = 0;  // buckets under way
  bool pushes = false, fetches = false;
  bool arrived = false;  // fetched whole, and not in the weights yet
  std::int64_t number = 0, clock = 0;
};

class Downpour final : public Agreement {
 public:
  explicit Downpour(const RuleContext& context)
      : fetch_steps_(std::max<std::int64_t>(1, context.options.own.integer(kFetchSteps))),
        push_steps_(std::max<std::int64_t>(1, context.options.own.integer(kPushSteps))),
        scale_(1.0F / static_cast<float>(context.num_workers)),
        is_ahead_(context.options.own.integer(kInFlight) > 1),
        accrues_(push_steps_ > 1 || is_ahead_),
        rounds_(static_cast<std::size_t>(std::max<std::int64_t>(1, context.options.own.integer(kInFlight)))),
        base_updates_(context.weights.size()),
        warm_(context.options.own.integer(kWarmStartSteps) <= 0 || context.num_workers == 1),
        link_(context) {
    if (warm_ || context.worker != 0) return;
    comm::Mailbox::Handler<WarmHead> handler;
    handler.arrived = [this](int peer, const comm::Letter<WarmHead>& letter) {
      cold_.emplace_back(peer, letter.ticket);
      if (warm_) let_others_begin();
    };
    context.mail->handle(std::move(handler));
  }

  ~Downpour() override {
    if (link_.context().mail != nullptr) link_.context().mail->stop_handling<WarmHead>();
  }

  Task<Status> begin_step(StepInfo step) override {
    TR_CO_RETURN_IF_ERROR(make_memory());
    const TimeNs began = link_.rt().now();
    if (!warm_ && link_.context().worker != 0) TR_CO_RETURN_IF_ERROR(co_await wait_for_warm_start());
    learning_rate_ = step.learning_rate;
    Round& round = current();
    while (round.left > 0)
      TR_CO_RETURN_IF_ERROR(co_await link_.background().wait_below(link_.background().under_way()));
    if (must_fetch_)
      TR_CO_RETURN_IF_ERROR(co_await fetch_now());
    else
      co_await take_newest();
    link_.note_wait(began);
    round.pushes = accrued_steps_ + 1 == push_steps_;
    round.fetches = (steps_ + 1) % fetch_steps_ == 0;
    round.left = round.pushes || round.fetches ? link_.num_buckets() : 0;
    round.clock = link_.clock();
    round.number = round_;
    round.own_pushes = pushes_ + (round.pushes ? 1 : 0);
    round.base_updates = base_updates_;
    round.base_pushes = base_pushes_;
    co_return Status();
  }

  Task<Status> exchange(BucketExchange bucket) override {
    const std::size_t b = bucket.bucket;
    const Tensor gradient = bucket.gradient;
    if (accrues_ && accrued_steps_ == 0)
      co_await copy(link_.rt(), gradient, accrued_[b]);
    else if (accrues_)
      co_await add_scaled(link_.rt(), accrued_[b], 1, gradient);
    Round& round = current();
    if (!round.fetches || is_ahead_) co_await step_here(b, gradient);
    if (round.left == 0) co_return Status();
    if (!accrues_) {
      TR_CO_RETURN_IF_ERROR(co_await push(round, b, gradient));
      link_.background().start(fetch(round, b));
      co_return Status();
    }
    if (round.pushes && is_ahead_) std::swap(accrued_[b], round.accrued[b]);
    link_.background().start(travel(round, b));
    co_return Status();
  }

  Task<Status> end_step(StepInfo) override {
    const Round& round = current();
    ++steps_;
    ++accrued_steps_;
    if (round.pushes) {
      accrued_steps_ = 0;
      ++pushes_;
      link_.set_clock(link_.clock() + 1);
    }
    if (round.pushes || round.fetches) ++round_;
    if (link_.context().worker == 0 && steps_ == link_.context().options.own.integer(kWarmStartSteps))
      let_others_begin();
    co_return Status();
  }

  Task<Status> arrive() override {
    TR_CO_RETURN_IF_ERROR(co_await send_all());
    link_.leave();
    co_return Status();
  }

  Task<Status> finish() override {
    TR_CO_RETURN_IF_ERROR(co_await send_all());
    co_return co_await link_.finish();
  }

  Task<Status> settle(std::vector<Tensor> into) override {
    TR_CO_RETURN_IF_ERROR(co_await send_all());
    TR_CO_RETURN_IF_ERROR(co_await link_.settle(std::move(into)));
    for (Round& round : rounds_) round.arrived = false;
    must_fetch_ = true;
    co_return Status();
  }

  void on_lost(int worker) override { link_.on_lost(worker); }
  std::vector<std::pair<std::string, Tensor>> state() const override { return link_.state(); }

  RuleReport report() const override {
    RuleReport report = link_.report();
    report.more["fetches"] = fetches_;
    report.more["local_steps"] = local_steps_;
    return report;
  }

 private:
  Round& current() { return rounds_[static_cast<std::size_t>(round_) % rounds_.size()]; }

  Status make_memory() {
    if (!rounds_[0].updates.empty()) return {};
    const auto make = [&](std::vector<Tensor>& vectors) -> Status {
      TR_ASSIGN_OR_RETURN(vectors, new_vectors_like(link_.rt(), link_.context().weights));
      return {};
    };
    if (accrues_) TR_RETURN_IF_ERROR(make(accrued_));
    for (Round& round : rounds_) {
      round.updates.resize(link_.num_buckets());
      if (!is_ahead_) continue;
      TR_RETURN_IF_ERROR(make(round.accrued));
      TR_RETURN_IF_ERROR(make(round.fetched));
    }
    return {};
  }

  // Before the first step and after a meeting.
  Task<Status> fetch_now() {
    TR_CO_RETURN_IF_ERROR(co_await link_.pull_all(link_.context().weights, link_.clock()));
    for (std::size_t b = 0; b < base_updates_.size(); ++b) base_updates_[b] = link_.version(b).updates;
    base_pushes_ = pushes_;
    must_fetch_ = false;
    co_return Status();
  }

  Task<void> take_newest() {
    Round* newest = nullptr;
    for (Round& round : rounds_)
      if (round.arrived && (newest == nullptr || round.number > newest->number)) newest = &round;
    if (newest == nullptr) co_return;
    for (Round& round : rounds_) round.arrived = false;
    for (std::size_t b = 0; is_ahead_ && b < link_.num_buckets(); ++b) {
      PassBody body = [](float* const* v, std::int64_t begin, std::int64_t end) {
        std::copy(v[1] + begin, v[1] + end, v[0] + begin);
      };
      std::vector<Tensor> vectors = {link_.context().weights[b], newest->fetched[b]};
      const PassCost cost{.flops = 0, .reads = 1, .writes = 1};
      co_await run_pass(link_.rt(), cost, std::move(vectors), std::move(body), "take parameters",
                        link_.parameter_elems(b));
    }
    base_updates_ = newest->updates;
    base_pushes_ = newest->own_pushes;
    ++fetches_;
  }

  Task<void> step_here(std::size_t b, Tensor gradient) {
    const float rate = learning_rate_;
    PassBody body = [rate](float* const* v, std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) v[0][i] -= rate * v[1][i];
    };
    std::vector<Tensor> vectors = {link_.context().weights[b], std::move(gradient)};
    const PassCost cost{.flops = 2, .reads = 2, .writes = 1};
    co_await run_pass(link_.rt(), cost, std::move(vectors), std::move(body), "local step",
                      link_.parameter_elems(b));
    if (b == 0) ++local_steps_;
  }

  Task<Status> push(const Round& round, std::size_t b, Tensor values) {
    server::PushNote note;
    note.learning_rate = learning_rate_;
    note.scale = scale_;
    note.based_on = round.base_updates[b];
    co_return co_await link_.push(b, std::move(values), note);
  }

  // With one round nothing runs on the weights until it is back, so they are fetched into directly.
  Task<Status> fetch(Round& round, std::size_t b) {
    if (round.fetches) {
      const Tensor into = is_ahead_ ? round.fetched[b] : link_.context().weights[b];
      TR_CO_RETURN_IF_ERROR(co_await link_.pull(b, into, round.clock + 1));
      round.updates[b] = link_.version(b).updates;
      const std::int64_t own = round.own_pushes - round.base_pushes;
      if (b == 0 && round.pushes) link_.note_staleness(round.updates[b] - round.base_updates[b] - own);
    }
    if (--round.left > 0) co_return Status();
    round.arrived = round.fetches;
    if (!round.pushes) co_return Status();
    co_return co_await link_.servers().tick(round.clock);
  }

  Task<Status> travel(Round& round, std::size_t b) {
    const Tensor values = is_ahead_ ? round.accrued[b] : accrued_[b];
    if (round.pushes) TR_CO_RETURN_IF_ERROR(co_await push(round, b, values));
    co_return co_await fetch(round, b);
  }

  // Nothing stays here: gradients that are not pushed yet leave now.
  Task<Status> send_all() {
    let_others_begin();
    if (accrued_steps_ > 0) {
      accrued_steps_ = 0;
      ++pushes_;
      std::vector<Task<Status>> pushes;
      for (std::size_t b = 0; b < link_.num_buckets(); ++b) {
        server::PushNote note;
        note.learning_rate = learning_rate_;
        note.scale = scale_;
        note.based_on = base_updates_[b];
        pushes.push_back(link_.push(b, accrued_[b], note));
      }
      TR_CO_RETURN_IF_ERROR(co_await runtime::when_all(link_.rt(), std::move(pushes)));
      TR_CO_RETURN_IF_ERROR(co_await link_.tick());
    }
    co_return co_await link_.background().drain();
  }

  Task<Status> wait_for_warm_start() {
    const WarmHead head;
    const net::View nothing;
    const auto answer = co_await link_.context().mail->ask(0, head, nothing, nothing);
    warm_ = true;
    co_return answer.status();
  }

  void let_others_begin() {
    warm_ = true;
    for (const auto& [peer, asked] : std::exchange(cold_, {}))
      link_.background().start(answer_cold(peer, asked));
  }

  Task<Status> answer_cold(int peer, comm::Ticket<comm::EmptyHead> asked) {
    comm::Mailbox& mail = *link_.context().mail;
    const comm::EmptyHead answer;
    const net::View nothing;
    const Status sent = co_await mail.reply(peer, asked, answer, nothing);
    co_return mail.is_alive(peer) ? sent : Status();
  }

  const std::int64_t fetch_steps_, push_steps_;
  const float scale_;    // of a push
  const bool is_ahead_;  // steps begin before the round of the step before is back
  const bool accrues_;   // gradients are kept here before they leave
  std::vector<Round> rounds_;
  std::vector<Tensor> accrued_;             // per bucket, gradients since the last push
  std::vector<std::int64_t> base_updates_;  // that the weights contain, per bucket,
  std::int64_t base_pushes_ = 0;            // and pushes of this worker
  std::int64_t steps_ = 0, accrued_steps_ = 0, pushes_ = 0, round_ = 0, fetches_ = 0, local_steps_ = 0;
  float learning_rate_ = 0;
  bool must_fetch_ = true;
  bool warm_;  // others may begin (worker 0), this one may
  std::vector<std::pair<int, comm::Ticket<comm::EmptyHead>>> cold_;  // worker 0: who waits to begin
  ServerLink link_;
};

}  // namespace

extern const AgreementRow kDownpour{
    .name = "downpour",
    .doc =
        "Workers push accrued gradients every `push_steps` and fetch weights every `fetch_steps`, waiting "
        "for "
        "nobody.",
    .paper = "Dean et al., Large scale distributed deep networks, NIPS 2012",
    .pace = Pace::kFree,
    .needs_server = true,
    .updates_here = false,
    .consistency = "async",
    .options = kOptions,
    .check = check,
    .check_cut = check_cut,
    .make = [](const RuleContext& context) -> std::unique_ptr<Agreement> {
      if (context.options.own.integer(kLocalReplicas) > 1) return make_local_replicas(context);
      return std::make_unique<Downpour>(context);
    },
    .traffic = traffic,
    .applies_old_updates = [](const OptionValues&) { return true; },
    .no_codec = nullptr};

}  // namespace trireme::agree
