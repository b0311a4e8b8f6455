#include "trireme/cli/bench/models.h"

#include <algorithm>
#include <cmath>

#include "trireme/cost/topology.h"
#include "trireme/runtime/real/real_runtime.h"

namespace trireme::cli::bench {
namespace {

using collective::Kind;

double latency_us(const cost::LinkModel& link) { return static_cast<double>(link.latency_ns) * 1e-3; }
double us_per_byte(const cost::LinkModel& link) { return 1e6 / link.bytes_per_second; }

double tree(double l, double g, double p, double m) { return 2 * (l + m * g) * std::log2(p); }
double butterfly(double l, double g, double p, double m) { return (l + m * g) * std::log2(p); }
double ring(double l, double g, double p, double m) { return 2 * l * (p - 1) + 2 * m * g * (p - 1) / p; }
double reduce_scatter_gather(double l, double g, double p, double m) {
  return 2 * l * std::log2(p) + 2 * m * g * (p - 1) / p;
}

// Vectors of m bytes that a rank must send or receive at least, over m.
double volumes(Kind kind, double world) {
  const double others = (world - 1) / world;
  switch (kind) {
    case Kind::kAllreduce:
      return 2 * others;
    case Kind::kReduce:
    case Kind::kBroadcast:
      return world > 1 ? 1 : 0;
    case Kind::kBarrier:
      return 0;
    default:
      return others;
  }
}

}  // namespace

Models default_models(const std::string& transport, int world) {
  Models models;
  if (transport != "tcp") models.link = cost::Topology().local;
  models.machine.cores = std::max(1, runtime::num_cores() / std::max(1, world));
  models.peer_memory = transport == "shm";
  models.source = "defaults";
  return models;
}

Result<Prediction> predict(const Models& models, const Work& work, int world) {
  collective::ScheduleSpec spec;
  spec.kind = work.kind;
  spec.world = world;
  spec.count = work.elems;
  spec.peer_memory = models.peer_memory;
  std::vector<const collective::Algorithm*> candidates = collective::algorithms_of(work.kind);
  if (!work.algorithm.empty()) {
    TR_ASSIGN_OR_RETURN(const collective::Algorithm* one,
                        collective::find_algorithm(work.kind, work.algorithm));
    candidates.assign(1, one);
  }
  TR_ASSIGN_OR_RETURN(const collective::Choice choice,
                      collective::choose(spec, candidates, models.link, models.machine));
  Prediction p{choice.algorithm->name, static_cast<double>(choice.candidates.front().time) * 1e-3};
  // Groups whose ranks see each other's memory add there, without a schedule.
  const bool direct = models.peer_memory && work.algorithm.empty();
  if (direct && (work.kind == Kind::kAllreduce || work.kind == Kind::kBarrier)) p.algorithm = "direct";
  return p;
}

std::vector<Formula> formulas_of(Kind kind) {
  if (kind != Kind::kAllreduce) return {};
  return {{"tree", tree},
          {"butterfly", butterfly},
          {"ring", ring},
          {"reduce-scatter + gather", reduce_scatter_gather}};
}

double bound_us(const Models& models, Kind kind, int world, double bytes) {
  if (world < 2) return 0;
  const double p = world;
  // Whoever talks to everybody directly needs one latency; whatever depends on everybody's data needs log2 P
  // only where a rank can take part in one message at a time, which is the model here.
  const double rounds = kind == Kind::kAllToAll ? 1 : std::log2(p);
  return latency_us(models.link) * rounds + us_per_byte(models.link) * bytes * volumes(kind, p);
}

}  // namespace trireme::cli::bench
