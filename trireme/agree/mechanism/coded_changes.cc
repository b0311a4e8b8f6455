#include "trireme/agree/mechanism/coded_changes.h"

#include <algorithm>

#include "trireme/agree/mechanism/vector_math.h"
#include "trireme/base/rng.h"
#include "trireme/runtime/sync.h"

namespace trireme::agree {

using runtime::Task;

Result<std::unique_ptr<CodedChanges>> CodedChanges::make(const RuleContext& context, Rest rest) {
  const std::vector<codec::Coding> codings = codings_of(context);
  const bool coded =
      std::any_of(codings.begin(), codings.end(), [](const auto& c) { return c.row != nullptr; });
  if (!coded || context.num_workers < 2) return std::unique_ptr<CodedChanges>();
  std::unique_ptr<CodedChanges> made(new CodedChanges(context, rest));
  TR_RETURN_IF_ERROR(made->set_up());
  return made;
}

Status CodedChanges::set_up() {
  const std::vector<codec::Coding> codings = codings_of(context_);
  for (std::size_t b = 0; b < context_.weights.size(); ++b) {
    auto& sum = sums_.emplace_back();
    if (codings[b].row == nullptr) continue;
    TR_ASSIGN_OR_RETURN(const comm::SumRow* row, comm::find_sum(context_.buckets[b].sum));
    comm::CodedSumOptions o;
    o.coding = codings[b];
    if (rest_ == Rest::kForgotten) o.coding.feedback = true;  // the rule asks for it
    o.packing = context_.buckets[b].packing;
    o.num_elems = context_.weights[b].shape().num_elems();
    o.num_shards = context_.num_workers;
    o.keys = mix_key(context_.seed, b);
    sum = row->make_coded(rt_, *context_.workers, std::move(o));
    TR_RETURN_IF_ERROR(sum->take_shards({context_.worker, 1}));
  }
  if (rest_ == Rest::kForgotten) return {};
  TR_ASSIGN_OR_RETURN(changes_, new_vectors_like(rt_, context_.weights));
  return {};
}

bool CodedChanges::encodes_at(std::int64_t round) const {
  return std::any_of(sums_.begin(), sums_.end(),
                     [&](const auto& sum) { return sum != nullptr && sum->encodes_at(round); });
}

Tensor CodedChanges::rest(std::size_t bucket) const {
  if (sums_[bucket] == nullptr) return {};
  for (const auto& [name, tensor] : sums_[bucket]->state())
    if (name == "residual")
      return Tensor(tensor.buffer(), context_.weights[bucket].type(), tensor.offset_bytes());
  return {};
}

// Slots beyond those of means as they are and of settle().
Task<Status> CodedChanges::sum_bucket(std::size_t b, std::uint32_t round, Tensor vector) {
  const std::string label = fmt::format("changes of bucket {}", b);
  if (sums_[b] == nullptr) {
    comm::Call call;
    call.step = round;
    call.slot = context_.buckets[b].change_slots.encodings[0];
    call.label = label;
    co_return co_await context_.workers->allreduce(std::move(call), std::move(vector));
  }
  if (rest_ == Rest::kForgotten) {
    const Tensor left = rest(b);
    if (!left.is_null()) co_await fill(rt_, left, 0);
  }
  comm::CodedCall call;
  call.step = round;
  call.slots = context_.buckets[b].change_slots;
  call.label = label;
  for (int w = 0; w < context_.num_workers; ++w) call.owners.push_back({w, 1});
  std::vector<Tensor> own{std::move(vector)};
  co_return co_await sums_[b]->sum(std::move(call), std::move(own));
}

Task<Status> CodedChanges::sum(std::uint32_t round, std::vector<Tensor> vectors) {
  std::vector<Task<Status>> buckets;
  for (std::size_t b = 0; b < sums_.size(); ++b) buckets.push_back(sum_bucket(b, round, vectors[b]));
  co_return co_await runtime::when_all(rt_, std::move(buckets));
}

Task<Status> CodedChanges::mean(std::uint32_t round, std::vector<Tensor> weights,
                                std::vector<Tensor> agreed) {
  std::vector<Task<Status>> buckets;
  for (std::size_t b = 0; b < sums_.size(); ++b)
    buckets.push_back(mean_bucket(b, round, weights[b], agreed[b]));
  co_return co_await runtime::when_all(rt_, std::move(buckets));
}

Task<Status> CodedChanges::mean_bucket(std::size_t b, std::uint32_t round, Tensor weights, Tensor agreed) {
  co_await subtract(rt_, weights, agreed, changes_[b]);
  TR_CO_RETURN_IF_ERROR(co_await sum_bucket(b, round, changes_[b]));
  const float share = 1.0F / static_cast<float>(context_.num_workers);
  PassBody body = [share](float* const* p, std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) p[0][i] = p[1][i] + share * p[2][i];
  };
  const PassCost cost{2.0, 2, 1};
  std::vector<Tensor> vectors{weights, agreed, changes_[b]};
  co_await run_pass(rt_, cost, std::move(vectors), std::move(body), "mean of changes");
  co_return Status();
}

double CodedChanges::encoded_bytes() const {
  double bytes = 0;
  for (const auto& sum : sums_)
    if (sum != nullptr) bytes += sum->stats().bytes;
  return bytes;
}

std::vector<std::pair<std::string, Tensor>> CodedChanges::state() const {
  std::vector<std::pair<std::string, Tensor>> all;
  for (std::size_t b = 0; b < sums_.size(); ++b) {
    if (sums_[b] == nullptr) continue;
    for (auto& [name, tensor] : sums_[b]->state()) all.emplace_back(fmt::format("{}/{}", name, b), tensor);
  }
  return all;
}

Task<Status> mean_of_weights(const RuleContext& context, const PeriodCounters& counters, CodedChanges* coded,
                             std::vector<Tensor> agreed) {
  const auto round = static_cast<std::uint32_t>(counters.rounds());
  if (coded != nullptr && coded->encodes_at(round))
    co_return co_await coded->mean(round, context.weights, std::move(agreed));
  MeanCall call;
  call.step = round;
  call.label = "average of bucket";
  co_return co_await mean_over_workers(context, std::move(call), context.weights);
}

RuleReport report_rounds(const RuleContext& context, const PeriodCounters& counters,
                         const CodedChanges* coded) {
  RuleReport r;
  r.exchanges = counters.rounds();
  if (context.worker != 0) return r;  // reports are added up; these are the same everywhere
  r.more["outer_steps"] = counters.rounds();
  r.more["period"] = counters.period();
  if (coded != nullptr) r.more["encoded_bytes"] = coded->encoded_bytes();
  return r;
}

std::vector<std::pair<std::string, Tensor>> state_of_rounds(std::string_view rule,
                                                            const PeriodCounters& counters,
                                                            const std::vector<Tensor>& agreed,
                                                            const CodedChanges* coded) {
  std::vector<std::pair<std::string, Tensor>> all{{fmt::format("{}/counters", rule), counters.tensor()}};
  for (std::size_t b = 0; b < agreed.size(); ++b)
    all.emplace_back(fmt::format("{}/agreed/{}", rule, b), agreed[b]);
  if (coded != nullptr)
    for (auto& [name, tensor] : coded->state())
      all.emplace_back(fmt::format("{}/codec/{}", rule, name), tensor);
  return all;
}

}  // namespace trireme::agree
