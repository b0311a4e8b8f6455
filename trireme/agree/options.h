// What a job says about its rule. The options of a rule (period, staleness ...) are specs that its row lists;
// those that several rules or mechanisms read are here, the others are in the file of their rule.
#pragma once

#include <cstdint>
#include <string>

#include "trireme/base/option_spec.h"
#include "trireme/codec/coding.h"

namespace trireme::agree {

inline constexpr OptionRange kStepCount{.least = 0, .most = 1'000'000};
inline constexpr OptionRange kAtLeastOneStep{.least = 1, .most = 1'000'000};

inline constexpr OptionSpec kPeriod{
    .name = "period",
    .default_value = 10,
    .doc = "Local steps of a worker between exchanges (default 10). averaging: 0 adapts it during the run.",
    .range = kStepCount};
// Rules that do not adapt the period list this one.
inline constexpr OptionSpec kGivenPeriod{
    .name = kPeriod.name,
    .default_value = kPeriod.default_value,
    .doc = kPeriod.doc,
    .range = {.least = kAtLeastOneStep.least,
              .most = kAtLeastOneStep.most,
              .words = "between 1 and 1000000; only averaging adapts the period, with 0"}};
inline constexpr OptionSpec kElasticity{
    .name = "elasticity",
    .default_value = 0.0,
    .doc =
        "Elastic coefficient (alpha of EASGD): fraction of the distance to the center by which a worker "
        "moves. Default, or 0: 0.9 / workers.",
    .range = {.least = 0, .most = 1, .words = "a fraction between 0 and 1"}};
inline constexpr OptionSpec kStaleness{
    .name = "staleness",
    .default_value = 3,
    .doc =
        "Staleness bound: number of clocks that the fastest worker may be ahead of the slowest (default "
        "3); 0: synchronous. decentralized: steps of a worker without an update from a peer (default 8), "
        "or clocks ahead of it where data.partition gives workers their own samples.",
    .range = kStepCount};
inline constexpr OptionSpec kFetchSteps{
    .name = "fetch_steps",
    .default_value = 1,
    .doc = "Local steps between pulls of the servers' weights, n_fetch (default 1).",
    .range = kAtLeastOneStep};
inline constexpr OptionSpec kPushSteps{
    .name = "push_steps",
    .default_value = 1,
    .doc = "Local steps whose updates are pushed as one, n_push (default 1).",
    .range = kAtLeastOneStep};
inline constexpr OptionSpec kInFlight{
    .name = "in_flight",
    .default_value = 1,
    .doc = "Number of updates of a worker that may be in flight at once (default 1).",
    .range = {.least = 1, .most = 1024}};
inline constexpr OptionSpec kLocalReplicas{
    .name = "local_replicas",
    .default_value = 1,
    .doc = "Replicas per worker that train one set of weights without locks (default 1).",
    .range = {.least = 1, .most = 1024},
    .hint = "start more workers, or set parallel.agreement=downpour"};

struct RuleOptions {
  OptionValues own = {};     // of the rule's row, as given
  bool own_samples = false;  // each worker steps on samples that nobody else has (data.partition)
  codec::Coding coding;      // of gradients and changes; rules that carry none are refused one
  bool codec_pull = false;   // servers answer with encoded changes too
};

}  // namespace trireme::agree
