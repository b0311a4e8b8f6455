// Gossip: every `period` steps a worker sends its model to some others; nobody waits, and what has come is
// mixed in before the next step. `neighbors`:
//
//   random    to a worker drawn from (seed, worker, clock), with weights (Blot, Picard, Cord, Thome, Gossip
//             training for deep learning, 2016, on the gossip of Boyd et al. 2006 and Kempe et al. 2003): the
//             sender keeps half of its weight w and sends the other half with x; the receiver takes
//             x_r <- (w_r x_r + w_s x_s) / (w_r + w_s), w_r <- w_r + w_s.
//   ring      each mixes with the models of both ring neighbours that have come since its last step,
//             x <- x + sum_j (x_j - x) / (1 + neighbours): the matrix of D-PSGD (Lian et al., Can
//             decentralized algorithms outperform centralized algorithms?, 2017), without its barrier.
//   push-sum  Stochastic gradient push (Assran, Loizou, Ballas, Rabbat, 2019): workers hold x and a weight w,
//             halve both and send one half to the worker 1, 2, 4, ... ranks on, in turn (their one-peer
//             exponential graph); what comes is added. Gradients are taken at x / w and applied to x. The
//             sums of x and of w over workers and parcels under way stay what they were.
//
// A meeting gives the mean over live workers (push-sum: sum x / sum w). Parcels that reach a worker at a
// meeting, or one that is lost, are the sender's again, so that no mass is missing.
#include <algorithm>

#include "trireme/agree/mechanism/gossip_parcels.h"
#include "trireme/agree/mechanism/star.h"
#include "trireme/agree/mechanism/vector_math.h"
#include "trireme/agree/traffic.h"
#include "trireme/base/rng.h"

namespace trireme::agree {
namespace {

using runtime::Runtime;
using runtime::Task;

constexpr std::string_view kNeighborNames[] = {"random", "ring", "push-sum"};
constexpr OptionSpec kNeighbors{
    .name = "neighbors",
    .default_value = "random",
    .doc =
        "gossip: with whom a worker mixes: random (one at a time), ring, push-sum. Formerly "
        "parallel.neighbours, which still works.",
    .range = {.choices = kNeighborNames},
    .old_name = "neighbours"};
constexpr OptionSpec kOptions[] = {kGivenPeriod, kNeighbors, kInFlight};

cost::Traffic traffic(const OptionValues& options, int num_workers) {
  cost::Traffic t = to_all_peers(num_workers);
  t.skips = true;
  t.copies = std::min(t.copies, options.text(kNeighbors) == "ring" ? 2.0 : 1.0);
  t.every = steps_between(options, kGivenPeriod);
  t.passes = 2 + 3 * t.copies;
  return t;
}

enum class Scheme : std::uint8_t { kRandom, kRing, kPushSum };

Scheme scheme_of(const std::string& neighbours) {
  if (neighbours == "ring") return Scheme::kRing;
  return neighbours == "push-sum" ? Scheme::kPushSum : Scheme::kRandom;
}

// x += sum over the others of (theirs - x) / parts, all from the old x.
Task<void> mix_all(Runtime& rt, std::vector<Tensor> x_and_others, float parts) {
  const std::size_t num = x_and_others.size();
  const PassCost cost{2 * static_cast<double>(num), static_cast<int>(num), 1};
  const auto body = [num, parts](float* const* v, std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      float sum = 0;
      for (std::size_t k = 1; k < num; ++k) sum += v[k][i] - v[0][i];
      v[0][i] += sum / parts;
    }
  };
  return run_pass(rt, cost, std::move(x_and_others), body, "mix");
}

// model = x / w.
Task<void> unbias(Runtime& rt, Tensor x, float w, Tensor model) {
  const auto body = [w](float* const* v, std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) v[1][i] = v[0][i] / w;
  };
  return run_pass(rt, {1, 1, 1}, {std::move(x), std::move(model)}, body, "unbias");
}

// x += model - x / w: the optimiser's change of the model is made to x.
Task<void> follow(Runtime& rt, Tensor x, float w, Tensor model) {
  const auto body = [w](float* const* v, std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) v[0][i] += v[1][i] - v[0][i] / w;
  };
  return run_pass(rt, {3, 2, 1}, {std::move(x), std::move(model)}, body, "follow");
}

// x /= 2, half = x.
Task<void> halve(Runtime& rt, Tensor x, Tensor half) {
  const auto body = [](float* const* v, std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) v[1][i] = v[0][i] *= 0.5F;
  };
  return run_pass(rt, {1, 1, 2}, {std::move(x), std::move(half)}, body, "halve");
}

class Gossip final : public Agreement {
 public:
  explicit Gossip(const RuleContext& context)
      : context_(context),
        rt_(*context.rt),
        scheme_(scheme_of(context.options.own.text(kNeighbors))),
        period_(std::max<std::int64_t>(1, context.options.own.integer(kGivenPeriod))),
        star_(context),
        parcels_(context) {}

  Task<Status> begin_step(StepInfo) override {
    TR_CO_RETURN_IF_ERROR(co_await prepare());
    parcels_.welcome();
    if (scheme_ == Scheme::kRandom) co_await take_weighted();
    if (scheme_ == Scheme::kRing) co_await take_ring();
    if (scheme_ == Scheme::kPushSum) co_await take_mass();
    co_return parcels_.failure();
  }

  Task<Status> exchange(BucketExchange /*bucket*/) override { co_return Status(); }

  Task<Status> end_step(StepInfo) override {
    ++clock_;
    if (scheme_ == Scheme::kPushSum)
      for (std::size_t b = 0; b < x_.size(); ++b)
        co_await follow(rt_, x_[b], static_cast<float>(w_), context_.weights[b]);
    if (clock_ % period_ != 0) co_return Status();
    std::vector<int> targets = choose();
    std::erase_if(targets, [this](int peer) {
      const bool full = !parcels_.may_send(peer);
      skipped_ += full ? 1 : 0;
      return full;
    });
    if (targets.empty()) co_return Status();
    co_return co_await send_to(std::move(targets));
  }

  Task<Status> settle(std::vector<Tensor> into) override {
    TR_CO_RETURN_IF_ERROR(co_await prepare());
    parcels_.refuse(/*for_good=*/false);
    TR_CO_RETURN_IF_ERROR(co_await parcels_.wait_for_own());
    const bool has_mass = scheme_ == Scheme::kPushSum;
    if (has_mass) co_await take_back();
    co_return co_await star_.mean(has_mass ? x_ : context_.weights, has_mass ? w_ : 1, std::move(into));
  }

  Task<Status> finish() override {
    parcels_.refuse(/*for_good=*/true);
    co_return Status();
  }

  void on_lost(int worker) override { parcels_.on_lost(worker); }
  // Push-sum: the model is x / w.
  void on_moved(std::size_t bucket, std::int64_t begin, std::span<const float> by) override {
    if (bucket >= x_.size()) return;
    float* const x = x_[bucket].data<float>() + begin;
    for (std::size_t i = 0; i < by.size(); ++i) x[i] += by[i] * static_cast<float>(w_);
  }

  RuleReport report() const override {
    RuleReport report = report_;
    report.more["sent"] = sent_;
    report.more["skipped"] = skipped_;
    report.more["refused"] = parcels_.num_refused();
    report.more["lost"] = parcels_.num_lost();
    if (scheme_ != Scheme::kRing) report.more["weight"] = w_;
    return report;
  }

 private:
  Task<Status> prepare() {
    if (scheme_ != Scheme::kPushSum || !x_.empty()) co_return Status();
    Result<std::vector<Tensor>> x = new_vectors_like(rt_, context_.weights);
    if (!x.ok()) co_return x.status();
    for (std::size_t b = 0; b < x->size(); ++b) co_await copy(rt_, context_.weights[b], (*x)[b]);
    x_ = std::move(*x);
    co_return Status();
  }

  void count(const Parcel& parcel) {
    ++report_.exchanges;
    ++report_.staleness[std::max<std::int64_t>(0, clock_ - parcel.clock)];
  }

  // One worker, or both ring neighbours, among those that take parcels.
  std::vector<int> choose() const {
    const std::vector<int> partners = parcels_.partners();
    if (partners.empty()) return {};
    const auto num = static_cast<std::uint32_t>(partners.size());
    if (scheme_ == Scheme::kRandom) {
      constexpr std::uint64_t kPurpose = 0x676F73736970;  // draws of nobody else: "gossip"
      const auto worker = static_cast<std::uint64_t>(context_.worker);
      Philox random(mix_key(context_.seed, kPurpose, worker), static_cast<std::uint64_t>(clock_));
      return {partners[random.next_below(num)]};
    }
    const auto next =
        static_cast<std::uint32_t>(std::upper_bound(partners.begin(), partners.end(), context_.worker) -
                                   partners.begin());  // position of the next worker on the ring
    if (scheme_ == Scheme::kRing) {
      const int after = partners[next % num], before = partners[(next + num - 1) % num];
      return after == before ? std::vector<int>{after} : std::vector<int>{before, after};
    }
    std::uint32_t hops = 0;  // distances 1, 2, 4, ... up to the number of others
    while ((2U << hops) <= num) ++hops;
    const auto turn = static_cast<std::uint32_t>((clock_ / period_ - 1) % (hops + 1));
    return {partners[(next + (1U << turn) - 1) % num]};
  }

  Task<Status> send_to(std::vector<int> targets) {
    auto taken = parcels_.take_vectors();
    if (!taken.ok()) co_return taken.status();
    std::shared_ptr<std::vector<Tensor>> vectors = std::move(*taken);
    for (std::size_t b = 0; b < vectors->size(); ++b)
      if (scheme_ == Scheme::kPushSum) {
        co_await halve(rt_, x_[b], (*vectors)[b]);
      } else {
        co_await copy(rt_, context_.weights[b], (*vectors)[b]);
      }
    if (scheme_ != Scheme::kRing) w_ *= 0.5;
    sent_ += static_cast<std::int64_t>(targets.size());
    const int last = targets.back();
    targets.pop_back();
    for (const int peer : targets) parcels_.send(peer, clock_, w_, vectors);
    parcels_.send(last, clock_, w_, std::move(vectors));  // the parcels alone own them: they may come back
    co_return Status();
  }

  Task<void> take_weighted() {
    take_weight_back();
    for (Parcel& parcel : parcels_.take_arrived()) {
      w_ += parcel.weight;
      for (std::size_t b = 0; b < parcel.vectors.size(); ++b)
        co_await mix(rt_, context_.weights[b], static_cast<float>(parcel.weight / w_), parcel.vectors[b]);
      count(parcel);
      parcels_.accept(std::move(parcel));
    }
  }

  // As if it had never been sent: sending changes the weight alone.
  void take_weight_back() {
    for (Parcel& parcel : parcels_.take_returned()) {
      w_ += parcel.weight;
      parcels_.done(std::move(parcel));
    }
  }

  Task<void> take_ring() {
    for (Parcel& parcel : parcels_.take_returned()) parcels_.done(std::move(parcel));
    std::vector<Parcel> arrived = parcels_.take_arrived(), latest;
    for (Parcel& parcel : arrived) {
      const auto older =
          std::find_if(latest.begin(), latest.end(), [&](const Parcel& p) { return p.peer == parcel.peer; });
      if (older == latest.end()) {
        latest.push_back(std::move(parcel));
      } else {
        std::swap(*older, parcel);
        parcels_.accept(std::move(parcel));
      }
    }
    if (latest.empty()) co_return;
    const std::size_t neighbours =
        std::max(latest.size(), std::min<std::size_t>(2, parcels_.partners().size()));
    for (std::size_t b = 0; b < context_.weights.size(); ++b) {
      std::vector<Tensor> vectors{context_.weights[b]};
      for (const Parcel& parcel : latest) vectors.push_back(parcel.vectors[b]);
      co_await mix_all(rt_, std::move(vectors), static_cast<float>(1 + neighbours));
    }
    for (Parcel& parcel : latest) {
      count(parcel);
      parcels_.accept(std::move(parcel));
    }
  }

  Task<void> add_mass(Parcel& parcel) {
    for (std::size_t b = 0; b < x_.size(); ++b) co_await add_scaled(rt_, x_[b], 1, parcel.vectors[b]);
    w_ += parcel.weight;
  }

  Task<void> take_mass() {
    co_await take_back();
    for (Parcel& parcel : parcels_.take_arrived()) {
      co_await add_mass(parcel);
      count(parcel);
      parcels_.accept(std::move(parcel));
    }
    for (std::size_t b = 0; b < x_.size(); ++b)
      co_await unbias(rt_, x_[b], static_cast<float>(w_), context_.weights[b]);
  }

  Task<void> take_back() {
    for (Parcel& parcel : parcels_.take_returned()) {
      co_await add_mass(parcel);
      parcels_.done(std::move(parcel));
    }
  }

  RuleContext context_;
  Runtime& rt_;
  Scheme scheme_;
  std::int64_t period_;
  std::int64_t clock_ = 0, sent_ = 0, skipped_ = 0;
  double w_ = 1;           // random, push-sum: the weight of this worker's model
  std::vector<Tensor> x_;  // push-sum: w times the model
  RuleReport report_;
  Star star_;
  Parcels parcels_;
};

}  // namespace

extern const AgreementRow kGossip{
    .name = "gossip",
    .doc =
        "Every `period` steps a worker sends its model to some `neighbors`; what has come is mixed in, and "
        "nobody waits.",
    .paper =
        "Blot, Picard, Cord, Thome, Gossip training for deep learning, 2016; Lian et al., Can "
        "decentralized "
        "algorithms outperform centralized algorithms? (D-PSGD), 2017; Assran, Loizou, Ballas, Rabbat, "
        "Stochastic gradient push, 2019",
    .pace = Pace::kFree,
    .needs_peers = true,
    .options = kOptions,
    .make = [](const RuleContext& context) -> std::unique_ptr<Agreement> {
      return std::make_unique<Gossip>(context);
    },
    .traffic = traffic,
    .no_codec =
        "whole models go to another peer each time, and nobody would make up for what an encoding left "
        "out; use "
        "parallel.agreement = decentralized or averaging, which encode changes"};

}  // namespace trireme::agree
