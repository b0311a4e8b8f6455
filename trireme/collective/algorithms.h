// The rows of table.cc, each defined in the file of its name.
#pragma once

#include "trireme/collective/schedule.h"

namespace trireme::collective {

// Usual answers to `applicable`.
inline Status any_spec(const ScheduleSpec&) { return {}; }
Status one_input_per_rank(const ScheduleSpec& spec);  // no leaf runs

extern const Algorithm kRing;
extern const Algorithm kFixedTree;
extern const Algorithm kBinomialAllreduce;
extern const Algorithm kButterfly;
extern const Algorithm kRabenseifner;
extern const Algorithm kChain;
extern const Algorithm kHierarchical;
extern const Algorithm kLinear;
extern const Algorithm kOneShot;
extern const Algorithm kTwoShot;
extern const Algorithm kBinomialReduce;
extern const Algorithm kBinomial;
extern const Algorithm kDirectGather;
extern const Algorithm kDirectScatter;
extern const Algorithm kRingAllgather;
extern const Algorithm kRingReduceScatter;
extern const Algorithm kDirectAllToAll;
extern const Algorithm kDirectNeighbours;
extern const Algorithm kDissemination;

}  // namespace trireme::collective
