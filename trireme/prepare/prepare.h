// prepare: Job -> graphs -> Plan -> compiled graphs.
#pragma once

#include "trireme/prepare/codec_choice.h"
#include "trireme/prepare/prepared.h"

namespace trireme::prepare {

Result<std::shared_ptr<const Prepared>> prepare(const job::Job& job, const model::ModelInput& input,
                                                const PrepareOptions& options);

// As if every gradient travelled for itself; the train graph and the updates are compiled for it.
Result<ParameterCosts> costs_by_parameter(const job::Job& job, const PrepareOptions& options,
                                          const Prepared& prepared);

}  // namespace trireme::prepare
