#include "trireme/agree/mechanism/period.h"

#include <algorithm>
#include <cmath>

#include "trireme/agree/mechanism/vector_math.h"
#include "trireme/runtime/sync.h"

namespace trireme::agree {

using runtime::Runtime;
using runtime::Task;

PeriodCounters::PeriodCounters(std::int64_t period) {
  const std::vector<std::int64_t> first{0, period, 0, 0};
  tensor_ = Tensor::from<std::int64_t>(first, Shape{4});
}

bool PeriodCounters::count_step() {
  const bool last = is_last_step();
  ++at(3);
  if (!last) return false;
  at(3) = 0;
  ++at(2);
  return true;
}

Task<Status> mean_over_workers(const RuleContext& context, MeanCall mean, std::vector<Tensor> vectors) {
  std::vector<Task<Status>> buckets;
  for (std::size_t b = 0; b < vectors.size(); ++b) {
    comm::Call call;
    call.step = mean.step;
    call.slot = context.buckets[b].*mean.slot;
    call.label = fmt::format("{} {}", mean.label, b);
    call.reduction = collective::Reduction::kMean;
    buckets.push_back(context.workers->allreduce(std::move(call), vectors[b]));
  }
  co_return co_await runtime::when_all(*context.rt, std::move(buckets));
}

Task<Status> settle_on_mean(const RuleContext& context, std::uint32_t number, std::vector<Tensor> into) {
  Runtime& rt = *context.rt;
  for (std::size_t b = 0; b < into.size(); ++b) co_await copy(rt, context.weights[b], into[b]);
  MeanCall call;
  call.step = number;
  call.slot = &RuleBucket::settled_slot;
  call.label = "agreed model, bucket";
  co_return co_await mean_over_workers(context, std::move(call), std::move(into));
}

AutoPeriod::AutoPeriod(Runtime& rt, comm::Mailbox& mail, int worker, int num_workers)
    : meeting_(rt, mail, worker, num_workers,
               [this](std::span<const TimesHead> said) { return decide(said); }) {}

ChosenPeriod AutoPeriod::decide(std::span<const TimesHead> said) {
  double exchange = said[0].exchange_seconds, step = said[0].step_seconds;
  for (const TimesHead& times : said) {
    exchange = std::min(exchange, times.exchange_seconds);
    step = std::max(step, times.step_seconds);
  }
  const bool first = exchange_seconds_ < 0;
  exchange_seconds_ = first ? exchange : (exchange_seconds_ + exchange) / 2;
  step_seconds_ = first ? step : (step_seconds_ + step) / 2;
  const double bearable = kExchangeShare * step_seconds_;  // seconds of exchange per step
  ChosenPeriod decided;
  decided.steps = exchange_seconds_ < bearable * static_cast<double>(kLongest)
                      ? std::max<std::int64_t>(1, std::llround(std::ceil(exchange_seconds_ / bearable)))
                      : kLongest;
  return decided;
}

Task<Result<std::int64_t>> AutoPeriod::choose(double exchange_seconds, double step_seconds) {
  const TimesHead mine{exchange_seconds, step_seconds};
  const auto chosen = co_await meeting_.meet(mine);
  if (!chosen.ok()) co_return chosen.status();
  co_return chosen->steps;
}

}  // namespace trireme::agree
