// CodedChanges: sums over all workers of how far each is from the model that all know, of which only
// encodings travel. For rules whose workers meet every `period` steps.
//
// The mean of the workers' models is w + sum_i d_i / W for d_i = x_i - w, with w the model agreed on last:
// what an encoding leaves out of d_i stays with the worker and is part of its next change (Rest::kNext).
// Where the next difference contains it anyway it is forgotten once the rule has seen it (Rest::kForgotten).
#pragma once

#include "trireme/agree/agree.h"
#include "trireme/agree/mechanism/period.h"
#include "trireme/comm/sum/coded_sum.h"

namespace trireme::agree {

class CodedChanges {
 public:
  enum class Rest : std::uint8_t { kNext, kForgotten };
  // Null where nothing is coded or there is one worker. kExhausted: there was no memory.
  static Result<std::unique_ptr<CodedChanges>> make(const RuleContext& context, Rest rest = Rest::kNext);

  bool encodes_at(std::int64_t round) const;
  // weights := agreed + (sum over workers of weights - agreed) / W, of encodings.
  runtime::Task<Status> mean(std::uint32_t round, std::vector<Tensor> weights, std::vector<Tensor> agreed);
  // Each of `vectors`, one per bucket, := its sum over workers, of encodings.
  runtime::Task<Status> sum(std::uint32_t round, std::vector<Tensor> vectors);
  // What the encoding of this worker's vector of the last sum left out; null: nothing.
  Tensor rest(std::size_t bucket) const;

  double encoded_bytes() const;
  // For checkpoints: "<name>/<bucket>", live memory.
  std::vector<std::pair<std::string, Tensor>> state() const;

 private:
  CodedChanges(const RuleContext& context, Rest rest) : context_(context), rest_(rest), rt_(*context.rt) {}
  Status set_up();
  runtime::Task<Status> sum_bucket(std::size_t bucket, std::uint32_t round, Tensor vector);
  runtime::Task<Status> mean_bucket(std::size_t bucket, std::uint32_t round, Tensor weights, Tensor agreed);

  const RuleContext context_;
  const Rest rest_;
  runtime::Runtime& rt_;
  std::vector<std::unique_ptr<comm::CodedSum>> sums_;  // per bucket; null: it travels as it is
  std::vector<Tensor> changes_;                        // of mean()
};

// What rules share that average the workers' weights every `period` steps; `coded` is null without a codec.
// weights := their mean, by encoded changes since `agreed` in rounds that encode.
runtime::Task<Status> mean_of_weights(const RuleContext& context, const PeriodCounters& counters,
                                      CodedChanges* coded, std::vector<Tensor> agreed);
RuleReport report_rounds(const RuleContext& context, const PeriodCounters& counters,
                         const CodedChanges* coded);
// "<rule>/counters", "<rule>/agreed/<bucket>" and what the codec keeps.
std::vector<std::pair<std::string, Tensor>> state_of_rounds(std::string_view rule,
                                                            const PeriodCounters& counters,
                                                            const std::vector<Tensor>& agreed,
                                                            const CodedChanges* coded);

}  // namespace trireme::agree
