#include "trireme/measure/collective/models.h"

#include <algorithm>
#include <cmath>

#include "trireme/measure/direct.h"
#include "trireme/runtime/real/real_runtime.h"

namespace trireme::measure {
namespace {

using collective::Kind;

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
  if (transport != "tcp") models.comm.link = models.comm.local;
  models.comm.machine.cores = runtime::num_cores();
  models.comm.ranks_per_host = world;
  models.peer_memory = transport == "shm";
  models.source = "defaults";
  return models;
}

Models calibrated_models(const cost::Calibration& calibration, const std::string& transport, int world) {
  Models models = default_models(transport, world);
  Result<cost::CommModel> comm = cost::comm_model(calibration, transport, world);
  if (!comm.ok()) {
    models.source = fmt::format("defaults ({})", comm.status().message());
    return models;
  }
  models.comm = std::move(*comm);
  Result<cost::CommModel> direct = cost::comm_model(calibration, kDirectName, world);
  if (models.peer_memory && direct.ok()) models.direct = std::move(*direct);
  models.source = fmt::format("{} on {}, calibrated {}", transport, calibration.host, calibration.date);
  return models;
}

double latency_us(const Models& models) { return static_cast<double>(models.comm.link.latency_ns) * 1e-3; }

double us_per_byte(const Models& models) {
  double rate = models.comm.link.bytes_per_second;
  if (models.peer_memory)
    rate = std::max({rate, models.comm.machine.bytes_per_second, models.comm.peer_bytes_per_second});
  return 1e6 / rate;
}

namespace {

// Sums of comm/direct.h. Calibrated: the cheaper of one-shot and two-shot by reads, which is what it does.
// Else a rank reads its chunk of everybody's vector while it adds, and the slower of the two counts. Vectors
// on the heap are first copied to where others can read.
Result<double> direct_us(const Models& models, collective::ScheduleSpec spec, bool shared_buffers) {
  const cost::CommModel& comm = models.direct ? *models.direct : models.comm;
  const double bytes = static_cast<double>(spec.bytes());
  const double copy = shared_buffers ? 0 : models.comm.peer_copy_seconds(bytes) * comm.crowding() * 1e6;
  if (models.direct && spec.kind == Kind::kAllreduce) {
    spec.peer_memory = true;
    TR_ASSIGN_OR_RETURN(const collective::Algorithm* one, collective::find_algorithm(spec.kind, "one-shot"));
    TR_ASSIGN_OR_RETURN(const collective::Algorithm* two, collective::find_algorithm(spec.kind, "two-shot"));
    const std::vector<const collective::Algorithm*> candidates{one, two};
    TR_ASSIGN_OR_RETURN(const collective::Choice choice, collective::choose(spec, candidates, comm));
    return static_cast<double>(choice.candidates.front().time) * 1e-3 + copy;
  }
  const double read = bytes * (spec.world - 1) / spec.world;
  const double stream = std::max(comm.peer_copy_seconds(read), comm.reduce_seconds(read));
  return (to_seconds(comm.link.latency_ns) * std::log2(spec.world) + stream) * comm.crowding() * 1e6 + copy;
}

}  // namespace

Result<PredictedTime> predict(const Models& models, const Work& work, int world, bool shared_buffers) {
  collective::ScheduleSpec spec;
  spec.kind = work.kind;
  spec.world = world;
  spec.count = work.elems;
  if (models.peer_memory && work.algorithm.empty() && world > 1 &&
      (work.kind == Kind::kAllreduce || work.kind == Kind::kBarrier)) {
    TR_ASSIGN_OR_RETURN(const double us, direct_us(models, spec, shared_buffers));
    return PredictedTime{kDirect, us};
  }
  std::vector<const collective::Algorithm*> candidates = collective::algorithms_of(work.kind);
  if (!work.algorithm.empty()) {
    TR_ASSIGN_OR_RETURN(const collective::Algorithm* one,
                        collective::find_algorithm(work.kind, work.algorithm));
    candidates.assign(1, one);
  }
  TR_ASSIGN_OR_RETURN(const collective::Choice choice, collective::choose(spec, candidates, models.comm));
  return PredictedTime{choice.algorithm->name, static_cast<double>(choice.candidates.front().time) * 1e-3};
}

std::vector<ClosedForm> formulas_of(Kind kind) {
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
  return latency_us(models) * rounds + us_per_byte(models) * bytes * volumes(kind, p);
}

}  // namespace trireme::measure
