// What the cost model says about a measurement: the algorithm it chooses, the time it predicts, the bound.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "trireme/cost/calibration.h"
#include "trireme/measure/collective/work.h"

namespace trireme::measure {

struct Models {
  cost::CommModel comm;
  // Ranks see each other's memory: sums go without messages (comm/direct.h), and the bound is that of memory.
  bool peer_memory = false;
  std::optional<cost::CommModel> direct;  // of such sums, where the calibration has them
  std::string source;                     // "defaults", or which calibration
};

// `world` ranks of this host share its cores.
Models default_models(const std::string& transport, int world);
// What the calibration says of the transport; the defaults where it says nothing.
Models calibrated_models(const cost::Calibration& calibration, const std::string& transport, int world);

struct PredictedTime {
  std::string algorithm;  // of a schedule, or "direct": sums in shared memory without one
  double microseconds = 0;
};
inline constexpr const char* kDirect = "direct";
// By price; `work.algorithm` empty: the cheapest. `shared_buffers`: direct sums need no copies.
Result<PredictedTime> predict(const Models& models, const Work& work, int world, bool shared_buffers);

// One line of the plot: a closed form T(m) in microseconds for m bytes.
struct ClosedForm {
  std::string name;
  double (*microseconds)(double latency_us, double us_per_byte, double world, double bytes);
};
// Allreduce: tree, butterfly, ring, reduce-scatter + gather (Ben-Nun and Hoefler, "Demystifying Parallel and
// Distributed Deep Learning", 2018, section 2.5). Other kinds: none.
std::vector<ClosedForm> formulas_of(collective::Kind kind);
// No algorithm is faster on such a link: latency of reaching everybody, and every byte that a rank must send
// or receive. L log2 P + 2 m G (P-1)/P for an allreduce.
double bound_us(const Models& models, collective::Kind kind, int world, double bytes);
// L and G of the bound and the formulas.
double latency_us(const Models& models);
double us_per_byte(const Models& models);

}  // namespace trireme::measure
