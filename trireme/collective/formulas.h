// The times that the literature gives for allreduce algorithms (Ben-Nun and Hoefler, "Demystifying Parallel
// and Distributed Deep Learning: An In-Depth Concurrency Analysis", 2018, section 2.5): L latency, n bytes, G
// time per byte, P ranks; additions are free. log2 forms hold for powers of two; the prices of the rows have
// the rounds of every P.
#pragma once

#include <span>

#include "trireme/collective/schedule.h"

namespace trireme::collective {

struct Formula {
  const char* algorithm;  // the allreduce row it belongs to; null: the lower bound
  const char* name;       // in the literature
  const char* text;
  double (*seconds)(double latency, double bytes, double seconds_per_byte, double ranks);
};
std::span<const Formula> allreduce_formulas();
// L log2 P + 2 n G (P-1)/P: no allreduce is faster on equal links.
const Formula& allreduce_bound();

}  // namespace trireme::collective
