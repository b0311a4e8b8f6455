#include "trireme/plan/replica_model.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "trireme/base/check.h"
#include "trireme/plan/step_program.h"

namespace trireme::plan {
namespace {

using Path = cost::Traffic::Path;

// Seconds of each bucket on its way to the servers, and back, when all workers send it.
struct ServerWay {
  double in = 0, out = 0;      // of the busiest link
  double there = 0, back = 0;  // for one worker that nobody disturbs
  double apply = 0;            // what the busiest server computes
  double alone() const { return there + back; }
};

// What travels and is computed for some buckets.
struct Load {
  double dense = 0, push = 0, pull = 0;  // bytes of the values, and as they travel
  double code = 0;                       // bytes that a worker moves to make the message
  double read = 0;                       // bytes that a server moves to read it
  double product = 0;                    // seconds of one core to multiply factors

  Load& operator+=(const Load& o) {
    dense += o.dense;
    push += o.push;
    pull += o.pull;
    code += o.code;
    read += o.read;
    product += o.product;
    return *this;
  }
};

// Every server needs its part of u and all of v.
double factor_bytes(const Bucket& bucket, int servers) {
  double elems = 0;
  for (std::size_t i = 0; i + 1 < bucket.factor_offsets.size(); i += 2) {
    const std::int64_t u = bucket.factor_offsets[i], v = bucket.factor_offsets[i + 1],
                       end = i + 2 < bucket.factor_offsets.size() ? bucket.factor_offsets[i + 2]
                                                                  : bucket.factor_elems;
    elems += static_cast<double>(v - u) + static_cast<double>(end - v) * std::max(1, servers);
  }
  return 4 * elems;
}

Load load_of(const Plan& plan, const Bucket& bucket, const Replicas& r) {
  Load load;
  load.dense = 4.0 * static_cast<double>(bucket.num_elems);
  load.push = bucket.message_bytes > 0 ? bucket.message_bytes : load.dense;
  load.pull = r.codes_pulls ? load.push : load.dense;
  load.code = bucket.code_bytes;
  load.read = std::max(load.dense, load.code);
  if (!bucket.sends_factors()) return load;
  load.push = factor_bytes(bucket, r.servers);
  load.code = 2 * load.push;
  load.pull = load.dense;
  load.read = 3 * load.dense;  // the product is written, then kept beside those of the others
  const double flops = 2.0 * static_cast<double>(plan.shard_batch) * static_cast<double>(bucket.num_elems);
  load.product = to_seconds(cost::compute_time({.flops = flops}, r.rates.machine, 1));
  return load;
}

double memory_seconds(double bytes, const cost::MachineModel& machine) {
  return bytes / (machine.bytes_per_second * machine.speed);
}

// `pushing`: replicas that send at the same time; each sends all of its tiles, which have their parameters at
// the same servers. `load` is that of a tile.
ServerWay way_of(const Load& load, double pushing, std::int32_t tiles, const Replicas& r) {
  const cost::LinkModel& link = r.rates.comm.link;
  const double servers = std::max(1, r.servers);
  // On a machine of both, the worker's own share does not travel.
  const double remote = r.colocated ? 1 / servers : 0, own = r.colocated ? 1 : 0;
  const double all = pushing * tiles;
  const auto busiest = [&](double bytes) {
    return std::max(bytes / servers * (all - own), bytes * (1 - remote)) / link.bytes_per_second +
           all * to_seconds(link.message_overhead_ns);
  };
  // A replica alone: a tile's own link, or that of a server, which all tiles send to at once.
  const auto alone = [&](double bytes) {
    return std::max(bytes * (1 - remote), tiles > 1 ? bytes * tiles / servers : 0) / link.bytes_per_second;
  };
  const double latency = to_seconds(link.latency_ns + link.message_overhead_ns);
  ServerWay way;
  way.in = busiest(load.push);
  way.out = busiest(load.pull);
  way.there = alone(load.push) + latency;
  way.back = alone(load.pull) + latency;
  // Every push is read, and the sum and the values are read and written.
  const double touched = tiles * (load.read * pushing + 4 * load.dense) / servers;
  way.apply = memory_seconds(touched, r.rates.machine) + load.product * all / servers +
              (all + tiles) * to_seconds(r.rates.machine.op_overhead_ns);
  return way;
}

class Model {
 public:
  Model(const Plan& plan, const StepCosts& costs, const Replicas& r)
      : plan_(plan), r_(r), shape_(step_shape(plan, costs, r.rates)) {
    for (const double seconds : shape_.update) update_ += seconds;
    for (const Bucket& bucket : plan.buckets) all_ += load_of(plan, bucket, r);
  }

  StepPrediction predict() const {
    StepPrediction p;
    p.compute_seconds = shape_.compute / pace() + coding();
    p.measured_fraction = p.compute_seconds > 0 ? shape_.measured / pace() / p.compute_seconds : 0;
    p.update_seconds = r_.traffic.updates_here ? update_ / pace() : 0;
    p.axis_seconds = shape_.axis;
    double step = p.compute_seconds + p.update_seconds + p.axis_seconds + passes();
    switch (r_.traffic.path) {
      case Path::kNone:
        break;
      case Path::kAllreduce:
        step = with_allreduce(step);
        break;
      case Path::kServers:
        step = with_servers(step);
        break;
      case Path::kPeers:
        step = with_peers(step);
        break;
    }
    p.exchange_seconds = std::max(0.0, step - p.compute_seconds - p.update_seconds - p.axis_seconds);
    return p;
  }

 private:
  double workers() const { return plan_.workers(); }
  // How many workers a step waits for.
  double quorum() const { return std::max(1.0, std::ceil(r_.traffic.quorum * workers() - 1e-9)); }
  Load load(std::size_t i) const { return load_of(plan_, plan_.buckets[i], r_); }
  // A worker's own encodings of a step, and what it decodes of encoded pulls.
  double coding() const {
    const bool coded = r_.traffic.path == Path::kServers || r_.traffic.path == Path::kPeers;
    return coded
               ? memory_seconds(all_.code * (r_.codes_pulls ? 2 : 1), r_.rates.machine) / every(0, 0) / pace()
               : 0;
  }

  // Speed of the worker that a step waits for, or the mean of those that go alone.
  double pace() const {
    if (r_.rates.speeds.empty()) return 1;
    if (r_.traffic.alone)
      return std::accumulate(r_.rates.speeds.begin(), r_.rates.speeds.end(), 0.0) / workers();
    std::vector<double> fastest_first = r_.rates.speeds;
    std::sort(fastest_first.begin(), fastest_first.end(), std::greater<>());
    return fastest_first[std::min(static_cast<std::size_t>(quorum()), fastest_first.size()) - 1];
  }

  // What a replica is busy with by itself: its work, and the exchanges that this waits for.
  double own_seconds() const { return shape_.compute / pace() + shape_.axis; }

  double passes() const {
    if (r_.traffic.passes == 0) return 0;
    cost::OpCost cost;
    cost.bytes = r_.traffic.passes * all_.dense;
    return to_seconds(cost::compute_time(cost, r_.rates.machine, plan_.shard_threads)) / every(0, 0) / pace();
  }

  // Where the rule chooses its period, an exchange takes its share of the steps between two of them.
  double every(double exchange, double step) const {
    if (r_.traffic.every > 0) return r_.traffic.every;
    return step > 0 ? std::max(1.0, std::ceil(exchange / (r_.traffic.share * step))) : 1;
  }

  double with_allreduce(double step) const {
    const double exchange = std::accumulate(shape_.exchange.begin(), shape_.exchange.end(), 0.0);
    const double steps = every(exchange, step);
    return r_.traffic.hidden ? std::max(step, exchange / steps) : step + exchange / steps;
  }

  // Far from each other the larger bound counts; where they are alike, workers also wait in line.
  static double queued(double cycle, double bound) {
    constexpr double kSharpness = 4;
    return std::pow(std::pow(cycle, kSharpness) + std::pow(bound, kSharpness), 1 / kSharpness);
  }

  double with_servers(double step) const {
    const ServerWay all = way_of(all_, workers(), plan_.tiles, r_);
    const double often = 1 / every(0, 0), busiest = std::max(all.in, all.out);
    // All began together and trade at the same steps, so they meet at the servers.
    if (r_.traffic.hidden && r_.traffic.every > 1)
      return step + std::max({0.0, all.alone() - own_seconds(), busiest - own_seconds()}) * often;
    if (r_.traffic.hidden) return std::max(step, busiest * often);
    if (!r_.traffic.alone && !r_.traffic.slack) return lock_step(often);
    const double bound = (busiest + all.apply) * often;
    if (!r_.traffic.alone || r_.servers > 1 || !r_.colocated) return queued(cycle(often), bound);
    // The worker on the only server's machine needs no link; the others share what that link carries.
    const double local = own_seconds() + all.apply / workers() * often, remote = queued(cycle(often), bound);
    return workers() / (1 / local + (workers() - 1) / remote);
  }

  // Lanes of what all workers share; cores are the worker's own.
  enum Lane : int { kNone = -1, kCores, kIn, kServers, kOut };
  struct WayPrices {
    ActionPrice push, apply, pull;
  };

  // When the last weights of a unit are back, where each bucket's way to the servers takes what `way` says.
  template <typename Way>
  double last_pull(const Way& way) const {
    const StepParts parts = cut_step(shape_.needed_at, shape_.final_at, shape_.loss_at, shape_.compute);
    StepSpec spec;
    spec.timetable = Timetable::kLeased;
    spec.num_parts = parts.size();
    spec.needed_by = parts.needed_by;
    spec.final_after = parts.final_after;
    spec.loss_after = parts.loss_after;
    const Result<StepProgram> unit = build_step(spec);
    TR_CHECK(unit.ok(), "{}", unit.status().to_string());
    std::vector<ActionPrice> prices;
    for (const Action& action : unit->actions) prices.push_back(price_of(action, parts, way));
    const StepTimes times = walk_step(*unit, prices);
    double latest = 0;
    for (std::size_t i = 0; i < prices.size(); ++i)
      if (unit->actions[i].kind == ActionKind::kRecv) latest = std::max(latest, times.end[i]);
    return latest;
  }

  template <typename Way>
  ActionPrice price_of(const Action& action, const StepParts& parts, const Way& way) const {
    const auto part = static_cast<std::size_t>(std::max(0, action.part)),
               bucket = static_cast<std::size_t>(std::max(0, action.bucket));
    switch (action.kind) {
      case ActionKind::kCompute:
        return {(parts.cuts[part + 1] - parts.cuts[part]) / pace(), kCores};
      case ActionKind::kSend:
        return way(bucket).push;
      case ActionKind::kSum:
        return way(bucket).apply;
      case ActionKind::kRecv:
        return way(bucket).pull;
      default:
        return {};
    }
  }

  // A worker alone with the servers: only its own pushes are in its way.
  double cycle(double often) const {
    const double latest = last_pull([&](std::size_t bucket) {
      const ServerWay way = way_of(load(bucket), workers(), plan_.tiles, r_);
      return WayPrices{{way.there, kIn}, {way.apply / workers(), kNone}, {way.back, kNone}};
    });
    const double compute = shape_.compute / pace();
    return own_seconds() + std::max(0.0, latest - compute) * often;
  }

  // All push at the same time: buckets go through the links in, the servers and the links out in turn.
  double lock_step(double often) const {
    const double out = last_pull([&](std::size_t bucket) {
      const ServerWay way = way_of(load(bucket), quorum(), plan_.tiles, r_);
      return WayPrices{{way.in, kIn}, {way.apply, kServers}, {way.out, kOut}};
    });
    const double compute = shape_.compute / pace();
    const double latency = 2 * to_seconds(r_.rates.comm.link.latency_ns);
    return own_seconds() + std::max(0.0, out + latency - compute) * often;
  }

  double with_peers(double step) const {
    if (r_.traffic.skips) return step;
    return std::max(step, r_.traffic.copies * all_.push / r_.rates.comm.link.bytes_per_second / every(0, 0));
  }

  const Plan& plan_;
  const Replicas& r_;
  StepShape shape_;
  double update_ = 0;
  Load all_;
};

}  // namespace

StepPrediction predict_replicas(const Plan& plan, const StepCosts& costs, const Replicas& replicas) {
  if (replicas.traffic.gradients) {
    cost::Rates rates = replicas.rates;
    for (const double speed : rates.speeds)
      rates.machine.speed = std::min(rates.machine.speed, replicas.rates.machine.speed * speed);
    return predict(plan, step_shape(plan, costs, rates));
  }
  return Model(plan, costs, replicas).predict();
}

BucketTrade trade_of(const Plan& plan, const Bucket& bucket, const Replicas& replicas) {
  const Load load = load_of(plan, bucket, replicas);
  BucketTrade trade;
  if (replicas.traffic.path == Path::kPeers) {
    trade.bytes_out = replicas.traffic.copies * load.push;
    trade.seconds = trade.bytes_out / replicas.rates.comm.link.bytes_per_second +
                    memory_seconds(load.code * (1 + replicas.traffic.copies), replicas.rates.machine);
  } else if (replicas.traffic.path == Path::kServers) {
    const ServerWay way = way_of(load, plan.workers(), plan.tiles, replicas);
    trade.bytes_out = load.push;
    trade.bytes_in = load.pull;
    trade.seconds = way.in + way.out + way.apply + memory_seconds(load.code, replicas.rates.machine);
  }
  return trade;
}

}  // namespace trireme::plan
