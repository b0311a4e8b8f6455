// ReplicaModel: what a step takes where workers keep one model by any rule, by the cost model. Pure.
//
// The time of a step is that of a global batch: what all workers together need for one step each. Where a
// step waits for all, the slowest sets it; where workers go alone, it is W over the sum of their rates.
// Servers are pipes: what all workers push comes in one after the other, and goes back the same way. Where
// nobody waits for another, neither the cycle of a worker nor the links of the busiest server can be beaten
// (Denning and Buzen, "The operational analysis of queueing network models", 1978: asymptotic bounds).
#pragma once

#include "trireme/cost/rates.h"
#include "trireme/cost/traffic.h"
#include "trireme/plan/plan.h"

namespace trireme::plan {

struct Replicas {
  cost::Traffic traffic;
  cost::Rates rates;
  int servers = 0;
  bool colocated = false;    // servers live on machines of workers
  bool codes_pulls = false;  // servers answer with encoded changes
};

StepPrediction predict_replicas(const Plan& plan, const StepCosts& costs, const Replicas& replicas);

// What a bucket alone sends from a worker (and to it, from servers), and how long all workers' copies of it
// keep the busiest link and the processors. For rules with servers or peers.
struct BucketTrade {
  double bytes_out = 0, bytes_in = 0, seconds = 0;
};
BucketTrade trade_of(const Plan& plan, const Bucket& bucket, const Replicas& replicas);

}  // namespace trireme::plan
