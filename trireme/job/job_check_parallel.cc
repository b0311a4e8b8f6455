// What of [parallel] makes sense, and what an agreement cannot do with the rest of the job.
#include <span>

#include "trireme/agree/agree.h"
#include "trireme/collective/schedule.h"
#include "trireme/cost/rates.h"
#include "trireme/job/job_checker.h"
#include "trireme/job/job_parts.h"
#include "trireme/job/roles.h"
#include "trireme/plan/step_model.h"

namespace trireme::job {
namespace {

constexpr std::string_view kPrefix = "parallel.";
constexpr std::int64_t kMostRanks = 65536;

// Rules among peers: one alone has nobody to speak to.
constexpr std::string_view kNeedPeers[] = {"gossip", "decentralized", "ssp-peer"};

// A key that belongs to a rule, by the name that rows list.
struct RuleKey {
  const char* name;
  bool (*given)(const Job::Parallel&);
};
constexpr RuleKey kRuleKeys[] = {
    {"period", [](const Job::Parallel& p) { return p.period.has_value(); }},
    {"elasticity", [](const Job::Parallel& p) { return p.elasticity.has_value(); }},
    {"staleness", [](const Job::Parallel& p) { return p.staleness.has_value(); }},
    {"fetch_steps", [](const Job::Parallel& p) { return p.fetch_steps.has_value(); }},
    {"push_steps", [](const Job::Parallel& p) { return p.push_steps.has_value(); }},
    {"in_flight", [](const Job::Parallel& p) { return p.in_flight.has_value(); }},
    {"warm_start_steps", [](const Job::Parallel& p) { return p.warm_start_steps.has_value(); }},
    {"local_replicas", [](const Job::Parallel& p) { return p.local_replicas.has_value(); }},
    {"gather", [](const Job::Parallel& p) { return p.gather.has_value(); }},
    {"fraction", [](const Job::Parallel& p) { return p.fraction.has_value(); }},
    {"outer", [](const Job::Parallel& p) { return p.outer.has_value(); }},
    {"outer_lr", [](const Job::Parallel& p) { return p.outer_lr.has_value(); }},
    {"outer_momentum", [](const Job::Parallel& p) { return p.outer_momentum.has_value(); }},
    {"neighbors", [](const Job::Parallel& p) { return p.neighbours.has_value(); }},
    {"proximity", [](const Job::Parallel& p) { return p.proximity.has_value(); }},
    {"locked", [](const Job::Parallel& p) { return p.locked.has_value(); }},
};

std::string key_of(std::string_view name) { return fmt::format("{}{}", kPrefix, name); }

void check_rule_keys(JobChecker& c, const Job& job, const agree::AgreementRow& row) {
  std::string known;
  for (const char* key : row.keys) known += fmt::format("{}{}", known.empty() ? "" : ", ", key);
  for (const RuleKey& key : kRuleKeys) {
    const bool has =
        std::any_of(row.keys.begin(), row.keys.end(), [&](std::string_view k) { return k == key.name; });
    const bool local = std::string_view(key.name) == "local_replicas";
    c.expect(has || !key.given(job.parallel), key_of(key.name),
             fmt::format("it not to be set: agreement '{}' has {}{}{}", row.name,
                         known.empty() ? "no keys of its own" : "only ", known,
                         local ? "; start more workers, or set parallel.agreement=downpour" : ""));
  }
}

void expect_steps(JobChecker& c, const std::optional<std::int64_t>& value, const char* name,
                  std::int64_t least, std::int64_t most) {
  c.expect(!value || (*value >= least && *value <= most), key_of(name),
           fmt::format("between {} and {}", least, most));
}

void check_rule_ranges(JobChecker& c, const Job::Parallel& p) {
  constexpr std::int64_t kMost = 1'000'000;
  expect_steps(c, p.period, "period", 0, kMost);
  expect_steps(c, p.staleness, "staleness", 0, kMost);
  expect_steps(c, p.fetch_steps, "fetch_steps", 1, kMost);
  expect_steps(c, p.push_steps, "push_steps", 1, kMost);
  expect_steps(c, p.in_flight, "in_flight", 1, 1024);
  expect_steps(c, p.warm_start_steps, "warm_start_steps", 0, kMost);
  expect_steps(c, p.local_replicas, "local_replicas", 1, 1024);
  c.expect(p.local_replicas.value_or(1) == 1 || p.warm_start_steps.value_or(0) == 0,
           "parallel.warm_start_steps", "0 where parallel.local_replicas is above 1: they begin together");
  c.expect(!p.gather || (*p.gather >= 0 && *p.gather <= p.workers), "parallel.gather",
           fmt::format("between 0 and the number of workers, {}", p.workers));
  c.expect(!p.elasticity || in_range(*p.elasticity, 0, 1), "parallel.elasticity",
           "a fraction between 0 and 1");
  c.expect(!p.fraction || (*p.fraction > 0 && *p.fraction <= 1), "parallel.fraction",
           "above 0 and at most 1");
  c.expect(!p.outer_lr || (*p.outer_lr > 0 && *p.outer_lr < 1e6), "parallel.outer_lr",
           "a rate above 0 and below 1000000");
  c.expect(!p.outer_momentum || (*p.outer_momentum >= 0 && *p.outer_momentum < 1), "parallel.outer_momentum",
           "at least 0 and below 1");
  c.expect(!p.proximity || in_range(*p.proximity, 0, 1e6), "parallel.proximity", "between 0 and 1000000");
  if (p.outer) c.expect_one_of(*p.outer, "parallel.outer", {"average", "sgd", "nesterov"});
  if (p.neighbours) c.expect_one_of(*p.neighbours, "parallel.neighbors", {"random", "ring", "push-sum"});
  const bool plain = p.outer.value_or("average") == "average";
  const char* outer =
      "it not to be set where the mean is taken as it is; set parallel.outer to sgd or nesterov";
  c.expect(!plain || !p.outer_lr, "parallel.outer_lr", outer);
  c.expect(!plain || !p.outer_momentum, "parallel.outer_momentum", outer);
}

void check_servers(JobChecker& c, const Job::Parallel& p, const agree::AgreementRow& row) {
  c.expect(p.servers >= -1 && p.servers <= kMostRanks, "parallel.servers", "between -1 and 65536");
  c.expect(!row.needs_server || p.servers != 0, "parallel.servers",
           fmt::format("1 or more, or -1 for one: agreement '{}' keeps the model on servers", row.name));
  c.expect(row.needs_server || p.servers <= 0, "parallel.servers",
           fmt::format("0: agreement '{}' uses no servers", row.name));
  c.expect_one_of(p.colocate, "parallel.colocate", {"auto", "yes", "no"});
  c.expect(p.workers + std::max<std::int64_t>(0, p.servers) <= kMostRanks, "parallel.servers",
           fmt::format("at most {} beside {} workers", kMostRanks - p.workers, p.workers));
}

// What only a step that all take together, or an optimiser on the worker, can do.
void check_rest(JobChecker& c, const Job& job, const agree::AgreementRow& row) {
  const Job::Train& t = job.train;
  const Job::Parallel& p = job.parallel;
  if (row.pace != agree::Pace::kStep) {
    c.expect(t.logical_shards == 0 || t.logical_shards == p.workers, "train.logical_shards",
             fmt::format("0, or {} as there are workers: with agreement '{}' every worker has one shard",
                         p.workers, row.name));
    c.expect(p.check_steps == 0, "parallel.check_steps",
             fmt::format("0: with agreement '{}' replicas differ between exchanges", row.name));
    c.expect(
        t.trace_steps == 0, "train.trace_steps",
        fmt::format("0: agreement '{}' writes no trace, since its workers do not step together; trace with "
                    "parallel.agreement = bsp",
                    row.name));
  }
  if (!row.updates_here) {
    const std::string why = fmt::format(
        ": agreement '{}' runs the optimizer on servers, which never see a "
        "whole gradient",
        row.name);
    c.expect(t.optimizer.clip_norm == 0, "train.optimizer.clip_norm", "0" + why);
    c.expect(t.nan == "stop", "train.nan", "stop" + why);
    c.expect(t.precision != "f16", "train.precision", "f32 or bf16" + why);
    c.expect(t.optimizer.max_batch_multiplier == 1, "train.optimizer.max_batch_multiplier", "1" + why);
  }
  const bool peers =
      std::find(std::begin(kNeedPeers), std::end(kNeedPeers), row.name) != std::end(kNeedPeers);
  c.expect(!peers || p.workers > 1, "parallel.workers",
           fmt::format("2 or more: agreement '{}' is among peers; add --workers 2", row.name));
  c.expect_ok(check_transport(job, p.transport), "parallel.transport");
  const std::string transport = p.transport == "auto" ? "shm" : p.transport;
  if (p.weights == "shared")
    c.expect_ok(can_share_weights(job, transport, static_cast<int>(p.workers)), "parallel.weights");
}

// A key that belongs to codecs.
struct CodecKey {
  const char* name;
  bool (*given)(const Job::Parallel&);
  std::vector<std::string_view> codecs;  // none: all
};

void check_codec_keys(JobChecker& c, const Job& job) {
  const Job::Parallel& p = job.parallel;
  const CodecKey keys[] = {
      {"codec_fraction",
       [](const Job::Parallel& j) { return j.codec_fraction.has_value(); },
       {"topk", "randomk", "threshold"}},
      {"codec_tau", [](const Job::Parallel& j) { return j.codec_tau.has_value(); }, {"threshold"}},
      {"codec_bits", [](const Job::Parallel& j) { return j.codec_bits.has_value(); }, {"qsgd"}},
      {"codec_clip", [](const Job::Parallel& j) { return j.codec_clip.has_value(); }, {"terngrad"}},
      {"codec_rank", [](const Job::Parallel& j) { return j.codec_rank.has_value(); }, {"powersgd"}},
      {"codec_feedback", [](const Job::Parallel& j) { return j.codec_feedback.has_value(); }, {}},
      {"codec_momentum", [](const Job::Parallel& j) { return j.codec_momentum.has_value(); }, {}},
      {"codec_least", [](const Job::Parallel& j) { return j.codec_least.has_value(); }, {}},
      {"codec_dense_steps", [](const Job::Parallel& j) { return j.codec_dense_steps.has_value(); }, {}},
      {"codec_warmup_steps",
       [](const Job::Parallel& j) { return j.codec_warmup_steps.has_value(); },
       {"topk", "randomk", "threshold"}},
      {"codec_pull", [](const Job::Parallel& j) { return j.codec_pull.has_value(); }, {}},
  };
  for (const CodecKey& key : keys) {
    std::string all;
    for (const std::string_view name : key.codecs) all += fmt::format("{}{}", all.empty() ? "" : ", ", name);
    // A codec that is switched off with parallel.codec = none leaves its keys behind; without that they do
    // nothing.
    if (p.codec == "none" && !job.given_at.contains("parallel.codec"))
      c.expect(!job.given_at.contains(key_of(key.name)), key_of(key.name),
               fmt::format("it not to be set without parallel.codec{}",
                           all.empty() ? "" : fmt::format("; set that to one of: {}", all)));
    if (!key.given(p) || p.codec == "none" || p.codec == kAutoCodec) continue;
    const bool fits = key.codecs.empty()
                          ? p.codec != "factors"  // which are sent as they are
                          : std::find(key.codecs.begin(), key.codecs.end(), p.codec) != key.codecs.end();
    c.expect(fits, key_of(key.name),
             fmt::format("it not to be set with parallel.codec = \"{}\"; it is for {}", p.codec,
                         all.empty() ? "the others" : all));
  }
}

void check_codec_ranges(JobChecker& c, const Job::Parallel& p) {
  constexpr std::int64_t kMost = std::int64_t{1} << 40;
  expect_steps(c, p.codec_least, "codec_least", 1, kMost);
  expect_steps(c, p.codec_dense_steps, "codec_dense_steps", 0, kMost);
  expect_steps(c, p.codec_warmup_steps, "codec_warmup_steps", 0, kMost);
  expect_steps(c, p.codec_rank, "codec_rank", 1, 64);
  const std::int64_t bits = p.codec_bits.value_or(4);
  c.expect(bits == 2 || bits == 4 || bits == 8, "parallel.codec_bits", "2, 4 or 8");
  const double fraction = p.codec_fraction.value_or(1);
  c.expect(fraction > 0 && fraction <= 1, "parallel.codec_fraction", "above 0 and at most 1");
  c.expect(in_range(p.codec_tau.value_or(0), 0, 1e30), "parallel.codec_tau", "between 0 and 1e30");
  c.expect(in_range(p.codec_clip.value_or(0), 0, 1e6), "parallel.codec_clip", "between 0 and 1000000");
  c.expect(p.codec_momentum.value_or(0) >= 0 && p.codec_momentum.value_or(0) < 1, "parallel.codec_momentum",
           "at least 0 and below 1");
  c.expect_one_of(p.codec_tolerance, "parallel.codec_tolerance", {"exact", "rounding", "feedback"});
  c.expect_one_of(p.reducer, "parallel.reducer", {"auto", "gather", "split", "sparse", "doubling"});
}

// Whether velocities may be made before they are encoded: the optimiser has none, or can do without.
bool takes_momentum(const Job::Optimizer& o, bool lock_step) {
  if (o.kind == "sgd" || !lock_step) return o.kind == "sgd";
  if (o.kind == "adamw") return true;  // its decay has no momentum
  const bool fits = o.kind == "adam" || (o.kind == "momentum" && !o.nesterov.value_or(false));
  return fits && o.weight_decay.value_or(0) == 0;
}

void check_codec(JobChecker& c, const Job& job, const agree::AgreementRow& row) {
  const Job::Parallel& p = job.parallel;
  check_codec_ranges(c, p);
  check_codec_keys(c, job);
  if (p.codec == "factors") c.expect_ok(can_send_factors(job), "parallel.codec");
  if (p.codec == "none" || p.codec == "factors") return;
  const std::string no_codec =
      fmt::format("none: agreement '{}': {}", row.name, row.no_codec == nullptr ? "" : row.no_codec);
  if (p.codec == kAutoCodec) {
    c.expect(row.no_codec == nullptr, "parallel.codec", no_codec);
    c.expect(!p.codec_pull.value_or(false) || row.needs_server, "parallel.codec_pull",
             fmt::format("false: agreement '{}' has no servers", row.name));
    c.expect(p.codec_momentum.value_or(0) == 0, "parallel.codec_momentum",
             "0 with codec = \"auto\", which may send gradients as they are");
    return;
  }
  if (p.codec == kPowerSgd) {
    c.expect(
        std::string_view(row.name) == "bsp", "parallel.codec",
        fmt::format("another codec, or parallel.agreement = bsp: powersgd is two sums over all workers in "
                    "every step, and agreement '{}' does not make them",
                    row.name));
    c.expect(p.codec_momentum.value_or(0) == 0, "parallel.codec_momentum", "0 with powersgd");
    return;
  }
  std::string names = fmt::format("none, auto, factors, {}", kPowerSgd);
  for (const codec::CodecRow& known : codec::codec_table()) names += fmt::format(", {}", known.name);
  const auto found = codec::find_codec(p.codec);
  c.expect(found.ok(), "parallel.codec", "one of: " + names);
  if (!found.ok()) return;
  const codec::Coding coding = coding_of(job);
  c.expect_ok((*found)->make(coding.options).status(), "parallel.codec");
  c.expect(row.no_codec == nullptr, "parallel.codec", no_codec);
  const bool bsp = std::string_view(row.name) == "bsp";
  c.expect(coding.momentum == 0 || takes_momentum(job.train.optimizer, bsp), "parallel.codec_momentum",
           bsp ? "0, or train.optimizer.kind = sgd, adamw, or momentum or adam with weight_decay = 0: the "
                 "velocities are the shards' own"
               : "0, or train.optimizer.kind = sgd: the velocities are the workers' own");
  const std::int64_t fixed = job.train.optimizer.fixed_after.value_or(0);
  c.expect(
      !lends_momentum(job) || job.train.optimizer.kind == "momentum" ||
          (fixed > 0 && fixed <= coding.dense_steps),
      "train.optimizer.fixed_after",
      fmt::format("between 1 and parallel.codec_dense_steps = {}: with parallel.codec_momentum what comes is "
                  "no gradient to make second moments of",
                  coding.dense_steps));
  c.expect(!p.codec_pull.value_or(false) || coding.row->bound != codec::Bound::kUnbiased,
           "parallel.codec_pull",
           fmt::format("false: codec '{}' is right on average only, and what servers send is kept", p.codec));
  if (std::string_view(row.name) == "easgd") {
    c.expect(p.reducer != "split", "parallel.reducer",
             "auto, gather, sparse or doubling: with agreement 'easgd' what a sum that is encoded again "
             "leaves out would be counted twice");
    c.expect(p.codec_feedback.value_or(true), "parallel.codec_feedback",
             "it not to be set: with agreement 'easgd' what was not sent is part of the next difference");
  }
  const bool peers =
      std::find(std::begin(kNeedPeers), std::end(kNeedPeers), row.name) != std::end(kNeedPeers);
  const bool changes = peers || row.pace == agree::Pace::kPeriod;
  c.expect(
      coding.momentum == 0 || !changes, "parallel.codec_momentum",
      fmt::format("0: under agreement '{}' changes of weights travel, which have their momentum", row.name));
  c.expect(!p.codec_pull.value_or(false) || row.needs_server, "parallel.codec_pull",
           fmt::format("false: agreement '{}' has no servers", row.name));
}

}  // namespace

void check_parallel(JobChecker& c, const Job& job) {
  const Job::Parallel& p = job.parallel;
  c.expect(p.workers >= 1 && p.workers <= kMostRanks, "parallel.workers", "between 1 and 65536");
  c.expect_one_of(p.transport, "parallel.transport", {"auto", "shm", "tcp", "mpi", "inproc"});
  c.expect(p.bucket_bytes >= 0, "parallel.bucket_bytes", "1 or more, or 0: chosen by the cost model");
  c.expect(plan::find_overlap(p.overlap).ok(), "parallel.overlap", "none, buckets or full");
  c.expect(p.deadline_ms >= 100, "parallel.deadline_ms", "100 or more");
  if (!p.link.empty()) c.expect_ok(cost::parse_link(p.link).status(), "parallel.link");
  c.expect_one_of(p.weights, "parallel.weights", {"auto", "shared", "own"});
  c.expect_one_of(p.device_collectives, "parallel.device_collectives", {"auto", "mapped", "nccl", "staged"});
  c.expect(p.device_collectives != "nccl" || job.train.logical_shards == 0, "parallel.device_collectives",
           "auto, mapped or staged where train.logical_shards is set: NCCL adds in an order that depends on "
           "the number of workers, and logical shards promise the same bits for any");
  c.expect(p.check_steps >= 0, "parallel.check_steps", "0 or more");
  c.expect_ok(collective::find_algorithm(collective::Kind::kAllreduce, p.collective).status(),
              "parallel.collective");
  c.expect(p.collective != "hierarchical", "parallel.collective",
           "an algorithm that needs no groups of ranks");
  const auto agreement = agree::find_agreement(p.agreement);
  c.expect_ok(agreement.status(), "parallel.agreement");
  if (!agreement.ok() || !c.status.ok()) return;
  check_servers(c, p, **agreement);
  check_rule_keys(c, job, **agreement);
  check_rule_ranges(c, p);
  check_codec(c, job, **agreement);
  check_rest(c, job, **agreement);
}

}  // namespace trireme::job
