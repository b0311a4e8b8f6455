// Buckets of gradients that use memory in turn, where replicas divide gradients: what is planned, and how the
// train graph waits.
#pragma once

#include <set>

#include "trireme/job/job.h"
#include "trireme/prepare/prepared.h"

namespace trireme::prepare {

// Whether the gradients of a bucket are not needed any more once it is applied, while backward runs.
bool can_take_turns(const job::Job& job, const Prepared& prepared);

// Places for the buckets in their order, with as little memory as lets the sum of one be under way while the
// next one is written. Those of `alone` share with nobody. num_elems is 0 where nothing is saved.
GradientPlaces place_gradients(const std::vector<plan::Bucket>& buckets, const std::set<std::size_t>& alone);

// Adds a gate for every bucket that waits for others; its number is in `places`.
void add_place_gates(const plan::Plan& plan, GradientPlaces& places, exec::CompileOptions& options);

// Buckets whose gates would never open in the train graph: a bucket that they wait for is not told of before.
// It is told of with all that is final where it is.
std::set<std::size_t> stuck_places(const Prepared& prepared);

}  // namespace trireme::prepare
