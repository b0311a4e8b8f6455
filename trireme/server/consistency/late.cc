// late: a clock closes with the first ceil(fraction * workers) pushes; what comes later is dropped, and who
// came late goes on with the open clock. The backup workers of Chen, Monga, Bengio, Jozefowicz 2016 ("take
// the first N of N + b"); DistBelief and Project Adam end an epoch with 75 % of the replicas in this manner.
#include <algorithm>
#include <cmath>

#include "trireme/server/consistency/closing_clocks.h"
#include "trireme/server/consistency/consistency.h"

namespace trireme::server {

std::unique_ptr<Consistency> make_late(const ConsistencyOptions& options) {
  // 0.75 * 4 is 3 also where the fraction is a little above it in binary.
  const double share = options.fraction * options.num_workers;
  const int needed = std::clamp(static_cast<int>(std::ceil(share - 1e-9)), 1, options.num_workers);
  return std::make_unique<ClosingClocks>(options.num_workers, needed);
}

}  // namespace trireme::server
