// What a job says about its rule: the keys of [parallel] that rules read. Each rule reads its own; rows of
// the table name them, and a key that the chosen rule does not read is refused when it is given.
#pragma once

#include <cstdint>
#include <string>

#include "trireme/codec/coding.h"

namespace trireme::agree {

struct RuleOptions {
  std::int64_t period = 10;  // tau: local steps between exchanges; 0: chosen while running
  double elasticity = 0;     // alpha of EASGD; 0: 0.9 / workers
  // ssp, ssp-peer: clocks that the fastest may be ahead of the slowest. decentralized: steps without news of
  // a peer, or clocks ahead where workers have samples of their own.
  std::int64_t staleness = 3;
  bool own_samples = false;  // each worker steps on samples that nobody else has (data.partition)
  std::int64_t fetch_steps = 1, push_steps = 1;  // downpour: n_fetch, n_push
  std::int64_t in_flight = 1;                    // updates on their way to servers or peers at once
  std::int64_t warm_start_steps = 0;             // downpour: steps of the first replica alone
  std::int64_t local_replicas = 1;               // downpour: replicas on one set of weights in each worker
  std::int64_t gather = 0;                       // soft: pushes that make one update; 0: half of the workers
  double fraction = 0.75;         // late: share of the replicas that completes a step or an epoch
  std::string outer = "average";  // averaging: "average", "sgd", "nesterov"
  double outer_lr = 1, outer_momentum = 0;
  std::string neighbours = "random";  // gossip: "random", "ring", "push-sum"
  double proximity = 0;               // conservative: weight of the distance to the agreed model
  bool locked = false;                // hogwild: one at a time
  codec::Coding coding;               // of gradients and changes; rules that carry none are refused one
  bool codec_pull = false;            // servers answer with encoded changes too
  std::int64_t low_rank = 0;          // bsp: columns of the factors of PowerSGD; 0: not used
  bool low_rank_feedback = true;
  std::string reducer = "gather";  // bsp with a codec: a row of comm/coded_sum.h
};

}  // namespace trireme::agree
