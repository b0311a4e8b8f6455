#include "trireme/record/learned.h"

#include <algorithm>
#include <cmath>

#include "trireme/agree/agree.h"
#include "trireme/codec/options.h"
#include "trireme/job/job_options.h"
#include "trireme/job/job_parts.h"
#include "trireme/job/roles.h"

namespace trireme::record {
namespace {

constexpr std::int64_t kFewSteps = 200;  // below, more steps may be all that is missing
constexpr double kOldUpdates = 4;        // clocks, and twice the workers

std::string percent(double share) { return fmt::format("{:.2f} %", 100 * share); }

// Whether accuracies can tell: not of one class, nor of texts, whose tokens are not equally frequent.
bool has_accuracy(const RunFacts& f) {
  return f.task == model::ModelTask::kClassify && f.num_test > 0 && f.num_classes > 1 && f.chance < 1;
}

// Within what drawing the answers would give now and then.
bool guesses(const RunFacts& f) {
  constexpr std::int64_t kEnough = 50;  // samples: of fewer a spread says little
  constexpr double kMostSpread = 0.05;
  const double spread =
      f.num_test < kEnough ? 0 : 2 * std::sqrt(f.chance * (1 - f.chance) / static_cast<double>(f.num_test));
  return f.test_accuracy <= f.chance + std::min(spread, kMostSpread);
}

bool no_better(const RunFacts& f) {
  // Weights that were trained before have little left to learn.
  const double allowed = f.starts_trained ? 1.5 : 1;
  return f.losses.last() >= allowed * f.losses.first();
}

struct Cause {
  std::string key, advice;
};

// The first that applies, the most particular one first.
Cause likeliest(const RunFacts& f, bool worse, bool skips) {
  Cause rate{"train.optimizer.lr", fmt::format("try a {} train.optimizer.lr than {}",
                                               worse || skips ? "smaller" : "different", f.learning_rate)};
  if (f.task == model::ModelTask::kClassify && f.num_classes == 1)
    return {"data.path", "all samples are of one class: a classifier needs at least two"};
  if (skips) {
    if (f.precision == "f16") return {"train.precision", "try train.precision = bf16 or f32"};
    return rate;
  }
  if (f.codec_loses) {
    const auto row = codec::find_codec(f.codec);
    const bool by_fraction = row.ok() && find_option((*row)->options, codec::kFraction.name) != nullptr;
    return {
        "parallel.codec",
        fmt::format("the codec '{}' may lose too much: try parallel.codec = none, or {}", f.codec,
                    by_fraction ? "a larger parallel.codec_fraction" : "more parallel.codec_dense_steps")};
  }
  if (f.mean_staleness > std::max(kOldUpdates, 2.0 * f.workers) && !f.staleness_key.empty())
    return {f.staleness_key, fmt::format("updates were {:.0f} clocks old: try a smaller {}", f.mean_staleness,
                                         f.staleness_key)};
  if (f.stale_momentum > 0)
    return {"train.optimizer.momentum",
            fmt::format("momentum {} is added to old updates: try train.optimizer.momentum = 0",
                        f.stale_momentum)};
  if (f.partition != "random" && !f.lock_step && f.workers > 1)
    return {"data.partition", fmt::format("with data.partition = {} every worker learns its own classes: try "
                                          "random, or parallel.agreement = bsp",
                                          f.partition)};
  const bool by_class = f.task == model::ModelTask::kClassify && f.num_classes > 1;
  if (by_class && f.losses.first() > 5 * std::log(static_cast<double>(f.num_classes)))
    return {
        "train.optimizer.lr",
        fmt::format("the first loss of {:.4g} is far above ln({}) = {:.2f}: scale the features to about -1 "
                    "to 1, or try a smaller train.optimizer.lr than {}",
                    f.losses.first(), f.num_classes, std::log(static_cast<double>(f.num_classes)),
                    f.learning_rate)};
  if (!worse && f.train_accuracy > f.chance + 0.3)
    return {"data.path", fmt::format("the training accuracy is {}: look whether the test samples and their "
                                     "labels are of the same kind (data.path)",
                                     percent(f.train_accuracy))};
  if (!worse && f.steps < kFewSteps)
    return {"train.epochs", fmt::format("{} steps may be too few: try more train.epochs", f.steps)};
  return rate;
}

}  // namespace

Diagnosis judge(const RunFacts& f) {
  if (f.steps < kLeastSteps) return {};
  const bool skips = 2 * f.skipped > f.steps;
  if (!skips && f.losses.steps() < kLeastSteps) return {};
  // A run that was resumed from a checkpoint of an earlier version does not know its first losses.
  const bool knows_start = 10 * (f.losses.steps() + f.skipped) >= 9 * f.steps;
  const bool worse = knows_start && no_better(f), blind = has_accuracy(f) && guesses(f);
  Diagnosis v;
  v.learned = !skips && !worse && !blind;
  if (*v.learned) return v;
  if (skips) {
    v.reason = fmt::format("{} of {} steps were skipped because the loss or a gradient was not finite",
                           f.skipped, f.steps);
  } else if (blind) {
    v.reason = fmt::format(
        "the test accuracy of {} is that of guessing ({} classes; the most frequent one alone "
        "gives {})",
        percent(f.test_accuracy), f.num_classes, percent(f.chance));
  } else {
    v.reason = fmt::format("the loss at the end ({:.4g}) is no better than at the start ({:.4g})",
                           f.losses.last(), f.losses.first());
  }
  Cause cause = likeliest(f, worse, skips);
  v.key = std::move(cause.key);
  v.advice = std::move(cause.advice);
  return v;
}

double chance_of(const data::Dataset& data) {
  if (data.label_kind != data::Labels::kClass || data.num_test == 0 || data.labels.empty()) return 0;
  std::vector<std::int64_t> counts(static_cast<std::size_t>(std::max(1, data.num_classes)));
  for (std::int64_t id = data.num_train; id < data.num_train + data.num_test; ++id)
    ++counts[static_cast<std::size_t>(data.label_of(id))];
  return static_cast<double>(*std::max_element(counts.begin(), counts.end())) /
         static_cast<double>(data.num_test);
}

// ---- of a summary

namespace {

// The key that keeps updates of this rule young.
std::string staleness_key_of(const agree::AgreementRow& row) {
  for (const char* key : {"staleness", "fetch_steps", "push_steps", "in_flight"})
    if (find_option(row.options, key) != nullptr) return fmt::format("parallel.{}", key);
  return "";
}

bool codec_loses(const job::Job& job, const Summary& s) {
  const job::Sending sending = job::sending_of(job, s.codec);
  const codec::CodecRow* row = sending.codec;
  const bool loses =
      sending.is(job::Sending::Kind::kLowRank) ||
      (row != nullptr && row->bound != codec::Bound::kExact && row->bound != codec::Bound::kRounding);
  return loses && s.steps > s.codec_dense_steps;
}

}  // namespace

std::vector<std::string> notes_of(const job::Job& job, const Summary& s) {
  std::vector<std::string> notes;
  // Loss scaling finds its scale by skipping some.
  if (s.skipped_steps > 0 && (job.train.precision != "f16" || 10 * s.skipped_steps > s.steps))
    notes.push_back(fmt::format("{} of {} steps were skipped because the loss or a gradient was not finite",
                                s.skipped_steps, s.steps));
  if (s.codec_dense_steps > 0 && s.steps > 0) {
    const bool none = s.steps <= s.codec_dense_steps;
    notes.push_back(
        none ? fmt::format(
                   "codec {}: nothing was encoded, because the first {} steps are dense and the run has "
                   "{} (parallel.codec_dense_steps)",
                   s.codec, s.codec_dense_steps, s.steps)
             : fmt::format("codec {}: the first {} of {} steps were dense (parallel.codec_dense_steps)",
                           s.codec, s.codec_dense_steps, s.steps));
  }
  const job::Sending sending = job::sending_of(job, s.codec);
  const bool encodes = sending.is(job::Sending::Kind::kCoded) || sending.is(job::Sending::Kind::kLowRank);
  if (s.workers == 1 && s.servers == 0 && encodes && s.steps > s.codec_dense_steps)
    notes.push_back(
        fmt::format("codec {} with one worker: nothing travels, yet its gradients are encoded and "
                    "decoded, so the weights are those of a compressed run",
                    s.codec));
  const job::Job::Optimizer& o = job.train.optimizer;
  if ((o.kind == "momentum" || o.kind == "nesterov") && !o.options.has("momentum") &&
      job::momentum_of(job) == 0)
    notes.push_back(fmt::format(
        "train.optimizer.momentum was 0, the default of {}: old updates act like momentum",
        job::overlaps_steps(job) ? fmt::format("pipelines of kind '{}'", job.options.text(job::kPipeline))
                                 : fmt::format("agreement '{}'", s.agreement)));
  const auto row = agree::find_agreement(s.agreement);
  if (row.ok() && s.mean_staleness() > std::max(kOldUpdates, 2.0 * s.workers))
    if (const std::string key = staleness_key_of(**row); !key.empty())
      notes.push_back(
          fmt::format("updates were {:.1f} clocks old on average (at most {}); a smaller {} keeps "
                      "workers closer together",
                      s.mean_staleness(), s.max_staleness(), key));
  return notes;
}

void judge_summary(const job::Job& job, const data::Dataset& data, const LossTrend& losses, bool real,
                   Summary& s) {
  s.codec_dense_steps = job::coding_of(job, job::sending_of(job, s.codec)).dense_steps;
  s.notes = notes_of(job, s);
  if (!s.finished || !real) return;
  RunFacts f;
  f.task = s.task;
  f.losses = losses;
  f.steps = s.steps;
  f.skipped = s.skipped_steps;
  f.starts_trained = !job.model.init_from.empty();
  f.num_test = data.num_test;
  f.num_classes = data.num_classes;
  f.test_accuracy = s.test_accuracy;
  f.train_accuracy = s.train_accuracy;
  f.chance = chance_of(data);
  f.codec = s.codec;
  f.partition = job.data.partition;
  f.precision = job.train.precision;
  f.workers = s.workers;
  f.codec_loses = codec_loses(job, s);
  f.mean_staleness = s.mean_staleness();
  f.learning_rate = job::peak_rate(job.train.optimizer);
  if (const auto row = agree::find_agreement(s.agreement); row.ok()) {
    f.lock_step = (*row)->pace == agree::Pace::kStep;
    f.staleness_key = staleness_key_of(**row);
    if (job::uses_old_updates(job)) f.stale_momentum = job::momentum_of(job);
  }
  const Diagnosis v = judge(f);
  s.learned = v.learned;
  s.learned_reason = v.reason;
  s.learned_key = v.key;
  s.learned_advice = v.advice;
}

}  // namespace trireme::record
