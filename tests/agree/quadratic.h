// A tiny trainer that drives a rule over the ranks of a virtual world: every worker has a quadratic of its
// own, f(x) = a/2 (x - b)^2 in each coordinate, and takes steps x <- x - lr * g.
//
// Per step: begin_step, the gradient at the weights as they are then, `compute_ns` of virtual time, exchange
// and update of all buckets at once, end_step. All workers meet in settle() every `settle_every` steps and at
// the end, after finish(). Workers are ranks 0..W-1, servers ranks W..W+S-1, each on a machine of its own.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "trireme/agree/agree.h"
#include "trireme/runtime/virtual/world.h"

namespace trireme::agree::testing {

using Vector = std::vector<float>;

// Where a gradient is asked for. `elem` counts over all buckets.
struct GradientAt {
  int worker = 0;
  std::int64_t step = 0;
  std::size_t elem = 0;
  float x = 0;
};

struct QuadraticJob {
  std::string rule;
  RuleOptions options;
  int workers = 2;
  std::int64_t steps = 10;
  std::vector<std::int64_t> steps_of = {};  // per worker, instead of `steps`
  float learning_rate = 0.5F;
  float momentum = 0;  // of the worker's own optimiser: v <- momentum v + g, x <- x - lr v
  std::uint64_t seed = 1;

  std::vector<std::int64_t> bucket_elems = {1};
  std::vector<std::int64_t> parameter_elems = {};  // RuleBucket::parameter_elems
  Vector start = {0};                              // of all workers: one value for all, or one per element
  std::vector<Vector> start_of = {};               // per worker, instead of `start`
  std::vector<float> a = {1}, b = {0};             // per worker; one value: for all
  std::function<float(const GradientAt&)> gradient = nullptr;  // instead of a (x - b)

  std::vector<TimeNs> compute_ns = {kMilli};  // of a step, per worker; one value: for all
  std::int64_t settle_every = 0;
  bool letters = false;     // gives the rule the group's mailbox
  bool expendable = false;  // workers but the first may be lost

  // Weights of all workers in the same memory (Hogwild).
  bool shared_weights = false;

  // Servers: both are called on their ranks before the first step; what the first returns lives until the
  // end. Worker 0 gives the servers its weights as first values.
  int servers = 0;
  std::function<std::shared_ptr<void>(runtime::Runtime& rt, comm::Group& world, int server)> make_server;
  std::function<std::unique_ptr<server::Client>(runtime::Runtime& rt, comm::Group& world)> make_client;
  // The rule itself instead of a row of the table.
  std::function<std::unique_ptr<Agreement>(const RuleContext& context)> make_rule = nullptr;
  bool updates_here = true;  // with make_rule; otherwise the row says so

  runtime::WorldSpec world;  // topology: made here when it has no machines
  cost::LinkModel link;
  // Called on a worker when end_step of a step is done.
  std::function<void(int worker, std::int64_t step, Agreement& rule)> after_step = nullptr;
  // Called on a worker before its first step, for example to restore state().
  std::function<void(int worker, Agreement& rule)> before_steps = nullptr;
};

struct QuadraticWorker {
  Vector weights;               // at the end, all buckets
  std::vector<Vector> trace;    // weights after end_step of every step
  TimeNs began = 0;             // before the first step
  std::vector<TimeNs> ended;    // of every step
  std::vector<Vector> settled;  // by every settle(); the last one is the agreed model
  RuleReport report;
  Status status;  // the first failure
  bool dead = false;
};

struct QuadraticRun {
  std::vector<QuadraticWorker> workers;
  runtime::WorldReport world;
};

// Two workers from 8: worker 0 halves x, worker 1 goes half of the way to 4.
QuadraticJob two_workers_from_eight(std::string rule, std::int64_t period, std::int64_t steps);
// Vectors of 8 elements in two buckets whose gradients have noise; the mean of the workers' minima in element
// e is e + (workers - 1) / 2. 300 steps over links of uneven speed.
QuadraticJob noisy_job(std::string rule, int workers, std::uint64_t seed);

// Fails the current test when a rank did not end; what the ranks say is in the result.
QuadraticRun run(const QuadraticJob& job);
// The same, and fails the current test when a worker failed.
QuadraticRun run_well(const QuadraticJob& job);

}  // namespace trireme::agree::testing
