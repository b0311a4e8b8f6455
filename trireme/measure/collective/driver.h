// The measurement: for every world and size, rounds of ours / Open MPI / Gloo, one side active at a time.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "trireme/measure/collective/models.h"
#include "trireme/measure/collective/peers.h"

namespace trireme::measure {

struct BenchOptions {
  collective::Kind kind = collective::Kind::kAllreduce;
  std::vector<int> worlds;
  std::vector<std::uint64_t> sizes;
  std::vector<std::string> against;  // "mpi", "gloo"
  std::string algorithm;             // of ours; empty: the choice of the group
  bool in_place = true;
  int repeats = 7;     // rounds
  double seconds = 0;  // budget for all of it; 0: kSlice per side and round
  int cores = 1;
  OwnOptions own;
  PeerOptions peers;
  bool own_links = false;  // every rank has a link of its own, which is known: the bound is a goal
  std::function<Models(int world)> models;
};

// One side at one point. A round's time is the median over its calls of the time of the slowest rank.
struct Timing {
  std::vector<double> rounds_us;
  double median_us = 0, low_us = 0, high_us = 0;  // over rounds: median and quartiles
  int calls = 0;                                  // per round
};

// Another side against ours: above 1 ours is faster. Quartiles over rounds of (theirs / ours in that round).
struct Ratio {
  double median = 0, low = 0, high = 0;
};

struct BenchRow {
  collective::Kind kind = collective::Kind::kAllreduce;
  int world = 0;
  std::uint64_t bytes = 0;
  std::string transport, algorithm;
  bool oversubscribed = false;
  Timing ours;
  std::optional<Timing> mpi, gloo;
  std::optional<Ratio> mpi_ratio, gloo_ratio;
  std::string mpi_setting;
  // Per round: one crossing of the start line just before ours was measured. Empty: more ranks than cores.
  std::vector<double> crossing_ns;
  double predicted_us = 0, bound_us = 0;
};

// A side that could not be measured, and why.
struct Absent {
  std::string side;
  int world = 0;
  std::string reason;
};

struct Report {
  std::vector<BenchRow> rows;
  std::vector<Absent> absent;
};

// Runs it all. `dir` exists and is empty; `on_row` is told of every row when done. Fails where ours fails,
// and where a peer that was asked for does not start at all; one that is lost later is reported as absent.
runtime::Task<Result<Report>> run_bench(runtime::Runtime& rt, const BenchOptions& options, std::string dir,
                                        std::function<void(const BenchRow&)> on_row);

// Value below which `fraction` of the values lie, between neighbours linearly. At least one value.
double quantile(std::vector<double> values, double fraction);
Timing summarise(std::vector<double> rounds_us, int calls);
Ratio ratio_of(const Timing& theirs, const Timing& ours);

}  // namespace trireme::measure
