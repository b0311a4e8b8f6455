// The rows of table.cc, each defined in the file of its name.
#pragma once

#include "trireme/collective/schedule.h"

namespace trireme::collective {

extern const Algorithm kRing;
extern const Algorithm kFixedTree;
extern const Algorithm kBinomial;
extern const Algorithm kDissemination;

}  // namespace trireme::collective
