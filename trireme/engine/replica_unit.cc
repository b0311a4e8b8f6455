// A Replica whose worker goes at its own pace: one unit, one step, by the rule; and the model that the rule
// has agreed on.
#include <cmath>

#include "trireme/engine/replica_parts.h"

namespace trireme::engine {

using runtime::Task;

void Replica::start_feed(LeaseSource source) { parts_->feed->start(std::move(source)); }
Task<Result<LeasedBatch>> Replica::next_unit() { return parts_->feed->next_leased(); }
void Replica::release() { parts_->feed->release(); }
agree::Agreement& Replica::rule() { return *parts_->agreement; }

Task<Result<StepOutput>> Replica::run_unit(StepInput input, std::span<const prepare::BatchTensors> batch) {
  Parts& p = *parts_;
  StepOutput out;
  p.begin_step(input);
  p.batch = batch;
  const agree::StepInfo info{input.step, input.learning_rate};
  const TimeNs started = p.rt.now();
  TR_CO_RETURN_IF_ERROR(co_await p.agreement->begin_step(info));
  const TimeNs may_compute = p.rt.now();
  p.scale_weights();
  Status status = co_await p.run_shard(0);
  if (status.ok() && p.broken_shard >= 0) status = co_await p.explain_broken_loss();
  if (!status.ok()) co_return co_await p.fail_step(std::move(status));
  const TimeNs computed = p.rt.now();
  if (!p.exchange_early)
    for (std::size_t i = 0; i < p.updates.size(); ++i) p.bucket_is_final(i);
  status = co_await p.wait_for_buckets();
  if (!status.ok()) co_return co_await p.fail_step(std::move(status));
  p.read_metrics(out);
  if (p.waits() && p.updates_here) TR_CO_RETURN_IF_ERROR(co_await p.apply_all(out));
  TR_CO_RETURN_IF_ERROR(co_await p.agreement->end_step(info));
  out.compute_ns = computed - may_compute;
  out.exposed_ns = (may_compute - started) + (p.rt.now() - computed);
  co_return out;
}

Task<Status> Replica::settle() { return parts_->agreement->settle(parts_->agreed); }

Task<double> Replica::drift() {
  Parts& p = *parts_;
  double apart = 0, length = 0;
  for (std::size_t i = 0; i < p.weights.size(); ++i) {
    const Tensor mine = p.weights[i], ours = p.agreed[i];
    const auto n = static_cast<double>(mine.shape().num_elems());
    const cost::OpCost work{.flops = 4 * n, .bytes = 8 * n};
    runtime::ComputeFn sum = [&apart, &length, mine, ours](runtime::ComputeContext&) {
      const std::span<const float> a = mine.values<float>(), b = ours.values<float>();
      for (std::size_t k = 0; k < a.size(); ++k) {
        const double d = static_cast<double>(a[k]) - static_cast<double>(b[k]);
        apart += d * d;
        length += static_cast<double>(b[k]) * static_cast<double>(b[k]);
      }
    };
    co_await p.rt.compute(work, std::move(sum), 1, "drift");
  }
  co_return length > 0 ? std::sqrt(apart / length) : 0.0;
}

std::int64_t Replica::num_eval_batches(Part part) const { return parts_->evaluator->num_batches(part); }

Task<Status> Replica::score(Part part, std::int64_t begin, std::int64_t end, std::span<float> results) {
  return parts_->evaluator->run(part, begin, end, results);
}

Result<io::NamedTensors> Replica::agreed() const { return parts_->named(parts_->agreed_variables, false); }
std::span<const Tensor> Replica::weights() const { return parts_->weights; }

}  // namespace trireme::engine
