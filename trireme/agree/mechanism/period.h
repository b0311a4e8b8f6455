// What rules that meet every `period` steps have in common: counting the steps, means over all workers, and
// choosing the period while the job runs.
//
// Collectives of these rules use slots from 0 on the workers' group (exchanges first, then settle()), and
// count their own calls as steps.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "trireme/agree/agree.h"
#include "trireme/agree/mechanism/meeting.h"

namespace trireme::agree {

// Counters that a checkpoint keeps: live memory like the other state, i64 even where tensors are phantom.
class PeriodCounters {
 public:
  explicit PeriodCounters(std::int64_t period);
  bool started() const { return at(0) != 0; }
  void set_started() { at(0) = 1; }
  std::int64_t period() const { return at(1); }  // 0: not chosen yet
  void set_period(std::int64_t period) { at(1) = period; }
  std::int64_t rounds() const { return at(2); }  // exchanges so far
  // The next step is the last of its period.
  bool is_last_step() const { return at(3) + 1 >= (period() > 1 ? period() : 1); }
  // Counts a step; true when it was the last of its period, and a new one begins.
  bool count_step();
  const Tensor& tensor() const { return tensor_; }

 private:
  std::int64_t& at(std::size_t i) const { return tensor_.data<std::int64_t>()[i]; }
  Tensor tensor_;  // started, period, rounds, steps since the last exchange
};

// The mean of every vector over all workers, in place, all of them at once.
struct MeanCall {
  std::uint32_t step = 0;
  std::uint16_t RuleBucket::*slot = &RuleBucket::mean_slot;
  std::string label;  // "average of bucket"
};
runtime::Task<Status> mean_over_workers(const RuleContext& context, MeanCall call,
                                        std::vector<Tensor> vectors);
// settle() of rules whose model is the mean of the weights: the `number`-th, counted from 0.
runtime::Task<Status> settle_on_mean(const RuleContext& context, std::uint32_t number,
                                     std::vector<Tensor> into);

// What an exchange and a step took on a worker, and the period that rank 0 makes of it.
struct ChosenPeriod {
  std::int64_t steps = 1;
  static constexpr auto kFields = comm::head_fields(comm::at<16>(&ChosenPeriod::steps));
};
struct TimesHead {
  static constexpr std::uint16_t kKind = comm::kLetterRuleFirst;
  double exchange_seconds = 0, step_seconds = 0;
  static constexpr auto kFields =
      comm::head_fields(comm::at<24>(&TimesHead::exchange_seconds), comm::at<32>(&TimesHead::step_seconds));
  using Answer = ChosenPeriod;
};

// Chooses the period so that exchanges take at most kExchangeShare of the time of the steps between them.
//
// Every worker tells rank 0 by letter how long its exchange and its steps took. What an exchange costs is the
// shortest time that anybody saw: the last to come waits for nobody. What a step costs is the longest, since
// the slowest sets the pace. Rank 0 answers everybody with the same period. New measurements count half, old
// ones the rest. (Not by the progress of the loss, as AdaComm does: Wang and Joshi 2019.)
class AutoPeriod {
 public:
  static constexpr double kExchangeShare = 0.1;
  static constexpr std::int64_t kLongest = 10'000;  // steps

  AutoPeriod(runtime::Runtime& rt, comm::Mailbox& mail, int worker, int num_workers);

  // All workers call it after the same exchange, in seconds; the same answer on all of them.
  runtime::Task<Result<std::int64_t>> choose(double exchange_seconds, double step_seconds);

 private:
  ChosenPeriod decide(std::span<const TimesHead> said);  // rank 0

  double exchange_seconds_ = -1, step_seconds_ = 0;  // < 0: nothing measured yet
  Meeting<TimesHead> meeting_;
};

}  // namespace trireme::agree
