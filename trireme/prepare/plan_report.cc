#include "trireme/prepare/plan_report.h"

#include <algorithm>

#include "trireme/agree/agree.h"
#include "trireme/job/job_parts.h"
#include "trireme/job/roles.h"
#include "trireme/prepare/coded_buckets.h"
#include "trireme/prepare/make_plan.h"
#include "trireme/prepare/prepare.h"

namespace trireme::prepare {
namespace {

using Kind = job::Sending::Kind;

std::string duration(double seconds) { return format_duration(from_seconds(seconds)); }

// What is thought of: what the tolerance allows, and what the job asks for.
std::vector<job::Sending> candidates_of(const job::Job& job) {
  std::vector<job::Sending> all = job::allowed_sendings(job);
  const job::Sending own = job::sending_of(job);
  if (!own.is(Kind::kAuto) && std::find(all.begin(), all.end(), own) == all.end()) all.push_back(own);
  return all;
}

const TensorPrice& find_price(const TensorPrices& tensor, const job::Sending& sending) {
  for (const TensorPrice& p : tensor.prices)
    if (p.sending == sending) return p;
  return tensor.prices.front();
}

std::string asked_for(const PlanReport& report) {
  return fmt::format("parallel.codec = \"{}\"", job::word_of(report.asked));
}

const plan::Bucket& bucket_of(const plan::Plan& plan, const std::string& parameter) {
  for (const plan::Bucket& b : plan.buckets)
    if (std::find(b.parameters.begin(), b.parameters.end(), parameter) != b.parameters.end()) return b;
  return plan.buckets.back();
}

std::string why_dense(const TensorReport& t, const PlanReport& report, const job::Job& job) {
  if (report.plan.workers() == 1 && report.servers == 0)
    return report.plan.tiles > 1 ? "one replica: no gradients travel" : "one worker: nothing travels";
  if (t.prices.prices.size() == 1)
    return t.prices.shape.num_elems() < job.parallel.codec_options.integer(codec::kLeast)
               ? "too short to encode (parallel.codec_least)"
               : "nothing else that is allowed carries it";
  if (!report.asked.is(Kind::kAuto)) return asked_for(report);
  const auto best = std::min_element(t.prices.prices.begin(), t.prices.prices.end(),
                                     [](const auto& a, const auto& b) { return a.seconds < b.seconds; });
  if (best->sending.is(Kind::kDense)) return "nothing takes less time";
  return fmt::format("{} would save {}, too little of the step", job::word_of(best->sending),
                     duration(t.seconds - best->seconds));
}

std::string why_coded(const TensorReport& t, const PlanReport& report) {
  if (!report.asked.is(Kind::kAuto)) return asked_for(report);
  const TensorPrice& dense = t.prices.prices.front();
  const double saved = dense.seconds - t.seconds;
  if (saved > 0) return fmt::format("saves {} of {}", duration(saved), duration(dense.seconds));
  return fmt::format("{} for all makes the shortest step", job::word_of(t.sending));
}

TensorReport report_tensor(TensorPrices prices, const PlanReport& report, const job::Job& job) {
  TensorReport t;
  t.prices = std::move(prices);
  const plan::Bucket& bucket = bucket_of(report.plan, t.prices.name);
  const TensorPrice& taken = find_price(t.prices, sending_of(bucket));
  t.sending = taken.sending;
  t.dense_bytes = 4.0 * static_cast<double>(t.prices.shape.num_elems());
  t.bytes_sent = taken.bytes_sent;
  t.seconds = taken.seconds;
  const bool dense = t.sending.is(Kind::kDense);
  if (bucket.message_bytes > 0 && !dense && report.servers == 0) t.sum = bucket.sum;
  t.why = dense ? why_dense(t, report, job) : why_coded(t, report);
  return t;
}

std::string verdict_of(const PlanReport& r) {
  if (r.plan.workers() == 1 && r.servers == 0 && r.plan.tiles > 1)
    return fmt::format(
        "One replica of {} workers: no gradients travel between replicas; within it a worker sends {} a "
        "step.",
        r.plan.mesh().num_ranks(),
        format_bytes(static_cast<std::uint64_t>(r.plan.tile_bytes * r.plan.logical_shards)));
  if (r.plan.workers() == 1 && r.servers == 0)
    return "One worker: nothing travels; try --workers 4 --link 1gbit,50us.";
  const std::string sends = fmt::format("A worker sends {} a step of {} of gradients",
                                        format_bytes(static_cast<std::uint64_t>(r.bytes_sent)),
                                        format_bytes(static_cast<std::uint64_t>(r.dense_bytes)));
  if (!r.asked.is(Kind::kAuto)) return sends + fmt::format("; {}.", asked_for(r));
  const std::string none = job::word_of({});
  if (r.plan.codec == none)
    return sends + "; no codec that is allowed makes the step 5 % shorter, so gradients travel as they are.";
  double dense = 0, chosen = 0;
  for (const plan::CodecChoice& c : r.plan.choices) {
    if (c.codec == none) dense = c.step_seconds;
    if (c.codec == r.plan.codec) chosen = c.step_seconds;
  }
  return sends + fmt::format("; chosen: {}, a step of {} instead of {}.", r.plan.codec, duration(chosen),
                             duration(dense));
}

}  // namespace

Result<PlanReport> report_plan(const job::Job& job, const model::ModelInput& input,
                               const PrepareOptions& options) {
  TR_ASSIGN_OR_RETURN(const std::shared_ptr<const Prepared> prepared, prepare(job, input, options));
  PlanReport r;
  r.plan = prepared->plan;
  r.asked = job::sending_of(job);
  r.servers = job::roles_of(job).servers;
  r.calibrated = options.rates != nullptr && options.rates->calibrated;
  TR_ASSIGN_OR_RETURN(const agree::AgreementRow* rule, agree::find_agreement(job.parallel.agreement));
  r.candidates = rule->no_codec == nullptr ? candidates_of(job) : std::vector<job::Sending>(1);
  TR_ASSIGN_OR_RETURN(std::vector<TensorPrices> prices, price_tensors(job, options, *prepared, r.candidates));
  for (TensorPrices& p : prices) {
    r.tensors.push_back(report_tensor(std::move(p), r, job));
    r.bytes_sent += r.tensors.back().bytes_sent;
    r.dense_bytes += r.tensors.back().dense_bytes;
  }
  r.verdict = verdict_of(r);
  return r;
}

Json to_json(const PlanReport& r) {
  Json tensors = Json::array(), choices = Json::array();
  for (const TensorReport& t : r.tensors) {
    Json prices = Json::array();
    for (const TensorPrice& p : t.prices.prices)
      prices.push_back({{"codec", job::word_of(p.sending)},
                        {"reducer", p.sum},
                        {"bytes_sent", p.bytes_sent},
                        {"seconds", p.seconds}});
    tensors.push_back({{"name", t.prices.name},
                       {"shape", t.prices.shape.to_string()},
                       {"dense_bytes", t.dense_bytes},
                       {"codec", job::word_of(t.sending)},
                       {"reducer", t.sum},
                       {"bytes_sent", t.bytes_sent},
                       {"seconds", t.seconds},
                       {"why", t.why},
                       {"candidates", prices}});
  }
  for (const plan::CodecChoice& c : r.plan.choices)
    choices.push_back({{"codec", c.codec},
                       {"reducer", c.sum},
                       {"exchange_seconds", c.seconds},
                       {"step_seconds", c.step_seconds}});
  return {{"workers", r.plan.mesh().num_ranks()},
          {"servers", r.servers},
          {"agreement", r.plan.agreement},
          {"asked", job::word_of(r.asked)},
          {"codec", r.asked.is(Kind::kAuto) ? r.plan.codec : job::word_of(r.asked)},
          {"calibrated", r.calibrated},
          {"bytes_sent_per_step", r.bytes_sent},
          {"bytes_dense_per_step", r.dense_bytes},
          {"prediction",
           {{"compute_seconds", r.plan.prediction.compute_seconds},
            {"exchange_seconds", r.plan.prediction.exchange_seconds},
            {"update_seconds", r.plan.prediction.update_seconds},
            {"axis_seconds", r.plan.prediction.axis_seconds},
            {"measured_fraction", r.plan.prediction.measured_fraction},
            {"step_seconds", r.plan.prediction.step_seconds()}}},
          {"tensors", tensors},
          {"choices", choices},
          {"verdict", r.verdict}};
}

std::string to_text(const PlanReport& r) {
  std::size_t wide = 6, wide_shape = 5;
  for (const TensorReport& t : r.tensors) {
    wide = std::max(wide, t.prices.name.size());
    wide_shape = std::max(wide_shape, t.prices.shape.to_string().size());
  }
  const auto bytes = [](double n) { return format_bytes(static_cast<std::uint64_t>(n)); };
  std::string text = fmt::format("{:<{}}  {:<{}} {:>10} {:>11} {:>10}", "tensor", wide, "shape", wide_shape,
                                 "gradient", "travels as", "sent");
  for (const job::Sending& c : r.candidates) text += fmt::format(" {:>9}", job::word_of(c));
  text += "  why\n";
  for (const TensorReport& t : r.tensors) {
    text +=
        fmt::format("{:<{}}  {:<{}} {:>10} {:>11} {:>10}", t.prices.name, wide, t.prices.shape.to_string(),
                    wide_shape, bytes(t.dense_bytes), job::word_of(t.sending), bytes(t.bytes_sent));
    for (const job::Sending& c : r.candidates) {
      const TensorPrice& p = find_price(t.prices, c);
      text += fmt::format(" {:>9}", p.sending == c ? duration(p.seconds) : "-");
    }
    text += "  " + t.why + "\n";
  }
  text +=
      "  sent: by a worker in a step; below the codecs: what the tensor adds to the exchanges of a step\n";
  if (!r.plan.choices.empty()) {
    text += fmt::format("\n{:<11} {:<9} {:>11} {:>11}\n", "all tensors", "summed by", "exchanges", "step");
    for (const plan::CodecChoice& c : r.plan.choices)
      text += fmt::format("{:<11} {:<9} {:>11} {:>11}\n", c.codec, c.sum, duration(c.seconds),
                          duration(c.step_seconds));
  }
  const plan::StepPrediction& p = r.plan.prediction;
  const std::string within =
      p.axis_seconds > 0 ? fmt::format(", exchanges within a replica {}", duration(p.axis_seconds)) : "";
  text += fmt::format("\npredicted step {}: compute {}, exchange not hidden {}, update {}{} ({} rates{})\n",
                      duration(p.step_seconds()), duration(p.compute_seconds), duration(p.exchange_seconds),
                      duration(p.update_seconds), within, r.calibrated ? "calibrated" : "assumed",
                      p.measured_fraction > 0
                          ? fmt::format(", {:.0f} % of the computation measured", 100 * p.measured_fraction)
                          : "");
  return text + r.verdict + "\n";
}

}  // namespace trireme::prepare
