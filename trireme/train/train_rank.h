// train_rank: the whole life of one rank of a training job, the same code on real and virtual Runtimes.
#pragma once

#include "trireme/record/summary.h"
#include "trireme/train/rank_context.h"

namespace trireme::train {

// Ends with the summary (the same on every rank but for this rank's bytes and times), or with the one error
// that names the culprit, the operation and the reason.
runtime::Task<Result<record::Summary>> train_rank(RankContext context);

// The first interrupt cancels `stop`; from then on the default applies again: the second ends the process.
void stop_on_interrupt(runtime::Runtime& rt, runtime::CancelToken stop);

}  // namespace trireme::train
