// What the cost model says about a measurement: the algorithm it chooses, the time it predicts, the bound.
#pragma once

#include <string>
#include <vector>

#include "trireme/cli/bench/work.h"
#include "trireme/cost/cost.h"

namespace trireme::cli::bench {

struct Models {
  cost::LinkModel link;
  cost::MachineModel machine;
  bool peer_memory = false;  // ranks see each other's memory
  std::string source;        // "defaults", or the calibration's file
};

// What a group uses that was given no calibration: `world` ranks of this host share its cores.
Models default_models(const std::string& transport, int world);

struct Prediction {
  std::string algorithm;
  double microseconds = 0;
};
// By price; `work.algorithm` empty: the cheapest, as the group chooses.
Result<Prediction> predict(const Models& models, const Work& work, int world);

// One line of the plot: a closed form T(m) in microseconds for m bytes.
struct Formula {
  std::string name;
  double (*microseconds)(double latency_us, double us_per_byte, double world, double bytes);
};
// Allreduce: tree, butterfly, ring, reduce-scatter + gather (Ben-Nun and Hoefler, "Demystifying Parallel and
// Distributed Deep Learning", 2018, section 2.5). Other kinds: none.
std::vector<Formula> formulas_of(collective::Kind kind);
// No algorithm is faster on such a link: latency of reaching everybody, and every byte that a rank must send
// or receive. L log2 P + 2 m G (P-1)/P for an allreduce.
double bound_us(const Models& models, collective::Kind kind, int world, double bytes);

}  // namespace trireme::cli::bench
