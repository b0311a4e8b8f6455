#include "trireme/engine/conductor.h"

#include <utility>

namespace trireme::engine {

namespace {
constexpr std::uint16_t kBehindSum = 1;  // a second call of a sum's slot
}  // namespace

using plan::ActionKind;
using runtime::Task;

Conductor::Conductor(runtime::Runtime& rt, const ConductorOptions& options, plan::StepProgram program)
    : rt_(rt), o_(options) {
  set_program(std::move(program));
}

void Conductor::set_program(plan::StepProgram program) {
  // Where an order is given, all ranks have it, and so many sums at once as keep a link busy.
  progress_.emplace(std::move(program), plan().exchange_order.empty() ? 0 : plan::kExchangesAtOnce);
  constexpr Index kNone = ~Index{0};
  updates_.assign(plan().buckets.size(), kNone);
  const auto& actions = progress_->program().actions;
  for (Index a = 0; a < actions.size(); ++a) {
    if (actions[a].bucket < 0) continue;
    Index& own = updates_[static_cast<std::size_t>(actions[a].bucket)];
    // At a worker's own pace a bucket's first action does what the rule wants of its gradients.
    if (in_lock_step() ? actions[a].kind == ActionKind::kUpdate : own == kNone) own = a;
  }
  for (std::size_t b = 0; b < updates_.size(); ++b)
    TR_CHECK(updates_[b] != kNone, "the program of a step does nothing with bucket {}", b);
}

void Conductor::expect(const StepInput& step) {
  expected_ = step;
  fresh_ = true;
}

void Conductor::begin() {
  if (!std::exchange(fresh_, false)) return;
  step_ = expected_;
  progress_->begin();
  updates_left_ = updates_.size();
  voted_ = false;
  decided_ = {};
  o_.updates->begin(step_);
}

void Conductor::computed(std::size_t place, std::int32_t part) {
  begin();
  progress_->computed(place, part);
  start();
}

void Conductor::computed_all() {
  begin();
  progress_->computed_all();
  start();
}

void Conductor::start() {
  while (const std::optional<Index> action = progress_->next()) rt_.spawn(run(*action));
}

std::vector<std::size_t> Conductor::applied() const {
  std::vector<std::size_t> all;
  for (std::size_t b = 0; has_gates() && b < updates_.size(); ++b)
    if (progress_->is_done(updates_[b])) all.push_back(b);
  return all;
}

Task<void> Conductor::run(Index action) {
  const Status status = co_await act(action);
  has_ended(action, status);
}

Task<Status> Conductor::act(Index action) {
  const plan::Action& a = progress_->action(action);
  const auto bucket = static_cast<std::size_t>(a.bucket);
  if (a.kind == ActionKind::kVote) return vote();
  if (!in_lock_step()) return by_rule(action);
  return a.kind == ActionKind::kSum ? sum(bucket) : update(bucket);
}

void Conductor::has_ended(Index action, const Status& status) {
  const plan::Action& a = progress_->action(action);
  progress_->ended(action);
  if (status.ok()) {
    if (a.kind == ActionKind::kVote) voted_ = true;
    if (a.bucket >= 0 && updates_[static_cast<std::size_t>(a.bucket)] == action && has_gates())
      o_.runs->open(static_cast<std::size_t>(a.bucket));
    start();
  } else {
    if (failure_.ok()) failure_ = status;
    progress_->drop_waiting();
    // Nobody opens its layers any more.
    if (has_gates() || o_.turns->take_turns()) o_.runs->cancel(status);
  }
  if (ended_ != nullptr) ended_->set(true);
}

// By the rule; in lock step the sum over all shards is there when it ends.
Task<Status> Conductor::exchange(std::size_t bucket) {
  agree::BucketExchange exchange;
  exchange.step = static_cast<std::uint32_t>(step_.step);
  exchange.bucket = bucket;
  exchange.owners = *o_.owners;
  exchange.gradient = (*o_.sums)[bucket]->memory(0);
  const TimeNs began = rt_.now();
  Status status = co_await o_.rule->exchange(std::move(exchange));
  o_.trace->note(fmt::format("exchange {}", bucket), "exchange", kFirstBucketTrack + static_cast<int>(bucket),
                 began);
  co_return status;
}

Task<Status> Conductor::sum(std::size_t bucket) {
  if (is_distant(bucket)) co_return Status();
  TR_CO_RETURN_IF_ERROR(co_await exchange(bucket));
  if (!kept_.empty()) add_kept(bucket);
  co_return Status();
}

void Conductor::add_kept(std::size_t bucket) {
  const Tensor sum = (*o_.sums)[bucket]->result();
  for (const auto& [offset, kept] : std::exchange(kept_[bucket], {})) {
    const std::span<float> to = sum.values<float>().subspan(static_cast<std::size_t>(offset));
    const std::span<const float> more = kept.values<float>();
    for (std::size_t i = 0; i < more.size(); ++i) to[i] += more[i];
  }
}

// Backward of earlier layers may still run, but nobody reads these parameters. Weights that are shared: all
// meet behind each update, or, where updates waited for the vote, behind the last.
Task<Status> Conductor::update(std::size_t bucket) {
  Status status;
  if (is_distant(bucket)) co_return status;
  if (decided_.applied) status = co_await apply(bucket);
  // Others may read gradients of this rank. At lower levels parameters have been gathered since.
  if (status.ok() && plan().zero_level() == 3 && !waits())
    status = co_await meet(slots().sum(bucket), kBehindSum);
  if (status.ok() && o_.turns->take_turns()) o_.turns->applied(bucket);
  co_return status;
}

Task<Status> Conductor::apply(std::size_t bucket) {
  const TimeNs began = rt_.now();
  Status status;
  {
    const BusyTime::Span busy(o_.busy);
    status = co_await o_.updates->update(bucket);
  }
  const int level = plan().zero_level();
  if (status.ok() && (level == 1 || level == 2))
    status = co_await o_.gathers->after_update(bucket, static_cast<std::uint32_t>(step_.step));
  const bool is_last = --updates_left_ == 0;
  if (status.ok() && o_.shared && !waits()) status = co_await meet(slots().updated(bucket));
  if (status.ok() && o_.shared && waits() && is_last) status = co_await meet(slots().rest());
  o_.trace->note(fmt::format("{} {}", o_.busy != nullptr ? "U" : "update", bucket), "update",
                 kFirstBucketTrack + static_cast<int>(bucket), began);
  co_return status;
}

// A worker at its own pace: what a rule sends of weights it sends at the end of the unit (end_step), what it
// gets back it waits for when it needs it. So the first action of a bucket is all that is done here.
Task<Status> Conductor::by_rule(Index action) {
  const auto bucket = static_cast<std::size_t>(progress_->action(action).bucket);
  if (updates_[bucket] != action) co_return Status();
  if (!waits()) TR_CO_RETURN_IF_ERROR(co_await exchange(bucket));
  if (o_.updates->wait_for_all() && !waits()) co_return Status();
  co_return co_await update(bucket);
}

// Everybody has updated its part, and has read what it needs of this worker's gradients.
Task<Status> Conductor::meet(std::uint16_t slot, std::uint16_t iteration) {
  comm::Call call;
  call.step = static_cast<std::uint32_t>(step_.step);
  call.iteration = iteration;
  call.slot = slot;
  call.label = fmt::format("update {}", slot);
  co_return co_await o_.peers->barrier(std::move(call));
}

Task<Status> Conductor::vote() {
  if (waits()) {
    if (!in_lock_step())  // the rule may change gradients before they are looked at
      for (std::size_t b = 0; b < updates_.size(); ++b) TR_CO_RETURN_IF_ERROR(co_await exchange(b));
    TR_CO_ASSIGN_OR_RETURN(const GradientCheck own, co_await o_.updates->check());
    o_.votes->of(step_.step).say(own.finite, own.squares);
  }
  TR_CO_RETURN_IF_ERROR(co_await o_.votes->cast(step_, *o_.owners));
  if (o_.votes->lag()) co_return Status();  // it is known later
  const VoteOutcome& outcome = o_.votes->of(step_.step).outcome();
  decided_.loss = outcome.loss;
  decided_.correct = outcome.correct;
  decided_.stop = outcome.stop;
  decided_.save = outcome.save;
  if (waits()) co_return co_await o_.updates->decide(step_, outcome, decided_);
  co_return Status();
}

Task<void> Conductor::wait_for_an_end() {
  ended_ = std::make_unique<runtime::OneShot<bool>>(rt_);
  co_await ended_->wait_until(kForever);
}

bool Conductor::is_decided() const {
  if (!voted_) return false;
  for (std::size_t b = 0; b < updates_.size(); ++b)
    if (plan().buckets[b].parameters.empty() && !progress_->is_done(updates_[b])) return false;
  return true;
}

Task<Status> Conductor::wait_for_vote(StepOutput& out) {
  while (failure_.ok() && !is_decided()) co_await wait_for_an_end();
  out.loss = decided_.loss;
  out.correct = decided_.correct;
  out.stop = decided_.stop;
  out.save = decided_.save;
  out.applied = decided_.applied;
  out.grad_norm = decided_.grad_norm;
  co_return failure_;
}

Task<Status> Conductor::wait_for_all() {
  while (progress_->left() > 0) co_await wait_for_an_end();
  co_return failure_;
}

Task<Status> Conductor::fail(Status status) {
  if (failure_.ok()) {
    o_.group->fail("training step", status.message());
    progress_->drop_waiting();
  } else {
    status = failure_;
  }
  (void)co_await wait_for_all();
  co_return status;
}

void Conductor::add_to_next(const std::map<std::string, Tensor>& kept) {
  const auto& buckets = plan().buckets;
  kept_.resize(buckets.size());
  for (std::size_t b = 0; b < buckets.size(); ++b)
    for (std::size_t p = 0; p < buckets[b].parameters.size(); ++p)
      if (const auto own = kept.find(buckets[b].parameters[p]); own != kept.end())
        kept_[b][buckets[b].offsets[p]] = own->second;
}

}  // namespace trireme::engine
