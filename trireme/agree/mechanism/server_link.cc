#include "trireme/agree/mechanism/server_link.h"

#include <algorithm>
#include <utility>

#include "trireme/agree/mechanism/vector_math.h"
#include "trireme/base/rng.h"

namespace trireme::agree {

using runtime::Task;
using runtime::when_all;

namespace {

LargestClock largest_clock(std::span<const LevelHead> said) {
  LargestClock answer;
  for (const LevelHead& head : said) answer.clock = std::max(answer.clock, head.clock);
  return answer;
}

}  // namespace

ServerLink::ServerLink(const RuleContext& context)
    : context_(context),
      versions_(context.weights.size()),
      residuals_(*context.rt, codings_of(context), context.weights, /*velocities=*/true),
      background_(*context.rt) {
  TR_CHECK(context.servers != nullptr, "a rule over servers needs them");
  if (context.num_workers == 1) return;
  TR_CHECK(context.mail != nullptr, "workers meet by letters");
  meeting_ = std::make_unique<Meeting<LevelHead>>(*context.rt, *context.mail, context.worker,
                                                  context.num_workers, largest_clock);
}

std::int64_t ServerLink::parameter_elems(std::size_t bucket) const {
  return context_.parameter_elems(bucket);
}

Task<Status> ServerLink::push(std::size_t bucket, Tensor values, server::PushNote note) {
  note.clock = clock_;
  ++pushes_;
  const auto key = static_cast<std::uint32_t>(bucket);
  if (!context_.buckets.empty() && context_.buckets[bucket].factored)
    co_return co_await servers().push_factors(key, std::move(values), note);
  if (!residuals_.is_on(bucket)) co_return co_await servers().push(key, std::move(values), note);
  TR_CO_RETURN_IF_ERROR(residuals_.status());
  server::CodedNote coded;
  coded.exchange = residuals_.count(bucket);
  encoded_ += residuals_.coding(bucket).encodes_at(coded.exchange) ? 1 : 0;
  coded.key = mix_key(mix_key(context_.seed, static_cast<std::uint64_t>(coded.exchange)),
                      static_cast<std::uint64_t>(context_.worker), bucket);
  coded.residual = residuals_.residual(bucket);
  coded.velocity = residuals_.velocity(bucket);
  co_return co_await servers().push_coded(key, std::move(values), note, std::move(coded));
}

Task<Status> ServerLink::pull(std::size_t bucket, Tensor into, std::int64_t clock) {
  ++pulls_;
  const auto key = static_cast<std::uint32_t>(bucket);
  const std::int64_t exchange = residuals_.exchanges(bucket);
  TR_CO_ASSIGN_OR_RETURN(versions_[bucket],
                         co_await servers().pull_coded(key, std::move(into), clock, exchange));
  co_return Status();
}

Task<Status> ServerLink::pull_whole(std::size_t bucket, Tensor into) {
  ++pulls_;
  const auto key = static_cast<std::uint32_t>(bucket);
  TR_CO_ASSIGN_OR_RETURN(versions_[bucket], co_await servers().pull(key, std::move(into), clock_));
  co_return Status();
}

Task<Status> ServerLink::pull_all(std::vector<Tensor> into, std::int64_t clock) {
  std::vector<Task<Status>> pulls;
  for (std::size_t b = 0; b < into.size(); ++b) pulls.push_back(pull(b, into[b], clock));
  co_return co_await when_all(rt(), std::move(pulls));
}

Task<Status> ServerLink::tick() { co_return co_await servers().tick(clock_++); }

void ServerLink::leave() {
  if (!std::exchange(away_, true)) background_.start(servers().finish());
}

Task<Status> ServerLink::finish() {
  finished_ = true;
  leave();
  co_return co_await background_.drain();
}

Task<Status> ServerLink::settle(std::vector<Tensor> into) {
  ++meetings_;
  leave();
  // Pulls that were held back for others are answered when these have come here too.
  TR_CO_RETURN_IF_ERROR(co_await background_.drain());
  TR_CO_RETURN_IF_ERROR(co_await meet());
  // Nobody pushes before the second meeting: all read the same values.
  for (std::size_t b = 0; b < into.size(); ++b) co_await copy(rt(), context_.weights[b], into[b]);
  std::vector<Task<Status>> pulls;
  for (std::size_t b = 0; b < into.size(); ++b) pulls.push_back(pull_whole(b, into[b]));
  TR_CO_RETURN_IF_ERROR(co_await when_all(rt(), std::move(pulls)));
  if (!finished_) {
    TR_CO_RETURN_IF_ERROR(co_await servers().rejoin(clock_));
    away_ = false;
  }
  co_return co_await meet();
}

Task<Status> ServerLink::meet() {
  if (meeting_ == nullptr) co_return Status();
  const LevelHead mine{clock_};
  TR_CO_ASSIGN_OR_RETURN(const LargestClock all, co_await meeting_->meet(mine));
  clock_ = all.clock;
  co_return Status();
}

void ServerLink::on_lost(int worker) {
  if (meeting_ != nullptr) meeting_->on_lost(worker);
}

void ServerLink::note_wait(TimeNs since) {
  const TimeNs waited = rt().now() - since;
  if (waited <= 0) return;
  ++waits_;
  waited_ns_ += waited;
}

RuleReport ServerLink::report() const {
  RuleReport report = report_;
  report.exchanges = pushes_ / static_cast<std::int64_t>(std::max<std::size_t>(1, num_buckets()));
  report.more["pushes"] = pushes_;
  report.more["pulls"] = pulls_;
  report.more["waits"] = waits_;
  report.more["waited_seconds"] = static_cast<double>(waited_ns_) * 1e-9;
  report.more["meetings"] = meetings_;
  if (residuals_.is_on()) report.more["encoded_messages"] = encoded_;
  return report;
}

}  // namespace trireme::agree
