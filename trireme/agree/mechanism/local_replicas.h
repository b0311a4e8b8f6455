// Downpour whose workers are several replicas each (`local_replicas`); see local_replicas.cc.
#pragma once

#include "trireme/agree/agree.h"

namespace trireme::agree {

// The rule of the worker's first replica; Agreement::for_local_replica() gives those of the others.
std::unique_ptr<Agreement> make_local_replicas(const RuleContext& context);

}  // namespace trireme::agree
