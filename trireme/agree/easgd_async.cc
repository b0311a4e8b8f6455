// Asynchronous elastic averaging (Zhang, Choromanska, LeCun 2015, algorithm 1): every `period` steps a worker
// and the centre pull each other, both by the same difference of old values, while the worker's gradient step
// from the old value goes on:
//   x <- x - lr g(x) - alpha (x - c)
//   c <- c + alpha (x - c)
// The worker sends x as the step begins and gets the old centre back; that travels while the step computes,
// and the worker's own line is completed at the step's end. EAMSGD, the momentum form (algorithm 2), is this
// rule with momentum or nesterov as the workers' optimiser.
//
// The agreed model is the centre. At a meeting every worker exchanges once more when all have come, or the
// centre would be close to whoever was last at work; its own line is completed before its next step.
#include "trireme/agree/mechanism/server_link.h"
#include "trireme/agree/mechanism/server_updates.h"
#include "trireme/agree/mechanism/vector_math.h"
#include "trireme/agree/traffic.h"

namespace trireme::agree {
namespace {

using runtime::Task;

constexpr OptionSpec kOptions[] = {kGivenPeriod, kElasticity};

cost::Traffic traffic(const OptionValues& options, int num_workers) {
  cost::Traffic t = to_servers(options, num_workers);
  t.every = steps_between(options, kGivenPeriod);
  t.hidden = true;   // travels while the step computes
  t.passes = 2 + 4;  // the copy that is sent, the worker's own line
  return t;
}

class EasgdAsync final : public Agreement {
 public:
  explicit EasgdAsync(const RuleContext& context)
      : period_(std::max<std::int64_t>(1, context.options.own.integer(kGivenPeriod))),
        alpha_(static_cast<float>(elasticity_of(context.options.own, context.num_workers))),
        updates_(context.weights.size(), -1),
        link_(context) {}

  // The first step is no exchange: all begin at the centre.
  Task<Status> begin_step(StepInfo) override {
    if (std::exchange(met_, false)) co_await pull_towards_centre();
    if (steps_++ % period_ != 0 || steps_ == 1) co_return Status();
    co_return co_await start_trade();
  }

  // The worker applies its own gradient.
  Task<Status> exchange(BucketExchange /*bucket*/) override { co_return Status(); }

  Task<Status> end_step(StepInfo) override {
    if (!std::exchange(trading_, false)) co_return Status();
    const TimeNs began = link_.rt().now();
    TR_CO_RETURN_IF_ERROR(co_await link_.background().drain());
    link_.note_wait(began);
    co_await pull_towards_centre();
    link_.note_staleness(others_);
    co_return co_await link_.tick();
  }

  Task<Status> finish() override { co_return co_await link_.finish(); }

  Task<Status> settle(std::vector<Tensor> into) override {
    TR_CO_RETURN_IF_ERROR(co_await link_.meet());
    if (!link_.is_finished()) {
      TR_CO_RETURN_IF_ERROR(co_await start_trade());
      TR_CO_RETURN_IF_ERROR(co_await link_.background().drain());
      trading_ = false;
      met_ = true;
      TR_CO_RETURN_IF_ERROR(co_await link_.tick());
    }
    co_return co_await link_.settle(std::move(into));
  }

  void on_lost(int worker) override { link_.on_lost(worker); }

  RuleReport report() const override {
    RuleReport report = link_.report();
    if (link_.context().worker != 0) return report;  // reports are added up; these are the same everywhere
    report.more["period"] = period_;
    report.more["elasticity"] = alpha_;
    return report;
  }

 private:
  Task<Status> start_trade() {
    if (sent_.empty()) {
      TR_CO_ASSIGN_OR_RETURN(sent_, new_vectors_like(link_.rt(), link_.context().weights));
      TR_CO_ASSIGN_OR_RETURN(centre_, new_vectors_like(link_.rt(), link_.context().weights));
    }
    for (std::size_t b = 0; b < sent_.size(); ++b) {
      co_await copy(link_.rt(), link_.context().weights[b], sent_[b]);
      link_.background().start(trade(b));
    }
    trading_ = true;
    co_return Status();
  }

  Task<void> pull_towards_centre() {
    for (std::size_t b = 0; b < sent_.size(); ++b) co_await pull_towards(b);
  }

  Task<Status> trade(std::size_t b) {
    server::PushNote note;
    note.clock = link_.clock();
    link_.note_push();
    const auto key = static_cast<std::uint32_t>(b);
    TR_CO_ASSIGN_OR_RETURN(
        const server::Version before,
        co_await link_.servers().push_pull(key, sent_[b], centre_[b], note, server::ReadWhen::kBefore));
    // Since this worker's last exchange, whose update is one of those that are counted.
    if (updates_[b] >= 0) others_ = before.updates - updates_[b] - 1;
    updates_[b] = before.updates;
    co_return Status();
  }

  Task<void> pull_towards(std::size_t b) {
    const float alpha = alpha_;
    PassBody body = [alpha](float* const* v, std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) v[0][i] -= alpha * (v[1][i] - v[2][i]);
    };
    std::vector<Tensor> vectors = {link_.context().weights[b], sent_[b], centre_[b]};
    const PassCost cost{.flops = 3, .reads = 3, .writes = 1};
    co_await run_pass(link_.rt(), cost, std::move(vectors), std::move(body), "elastic",
                      link_.parameter_elems(b));
  }

  const std::int64_t period_;
  const float alpha_;
  std::int64_t steps_ = 0;
  bool trading_ = false;
  bool met_ = false;                   // exchanged at a meeting, and the own line is not completed
  std::vector<Tensor> sent_, centre_;  // per bucket, of the exchange under way
  std::vector<std::int64_t> updates_;  // of the centre at the last exchange
  std::int64_t others_ = 0;            // exchanges of others since this worker's last
  ServerLink link_;
};

}  // namespace

extern const AgreementRow kEasgdAsync{
    .name = "easgd-async",
    .doc = "Every `period` steps a worker and the servers' centre pull at each other, on their own.",
    .paper = "Zhang, Choromanska, LeCun, Deep learning with Elastic Averaging SGD, 2015",
    .pace = Pace::kFree,
    .needs_server = true,
    .consistency = "async",
    .options = kOptions,
    .make = [](const RuleContext& context) -> std::unique_ptr<Agreement> {
      return std::make_unique<EasgdAsync>(context);
    },
    .traffic = traffic,
    .serve =
        [](const OptionValues& options, int num_workers, server::ServerOptions& servers) {
          servers.make_update =
              [alpha = elasticity_of(options, num_workers)](std::span<const server::StoredPart> parts) {
                return elastic_update(parts, alpha);
              };
        },
    .no_codec =
        "workers send their models to a centre that only the servers know, so there is no difference to "
        "encode; use parallel.agreement = easgd, which encodes differences"};

}  // namespace trireme::agree
