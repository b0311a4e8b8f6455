// bsp: all workers' pushes of a clock are one update, and nobody reads for the next clock before it is made
// (Valiant 1990).
#include "trireme/server/consistency/closing_clocks.h"
#include "trireme/server/consistency/consistency.h"

namespace trireme::server {

std::unique_ptr<Consistency> make_bsp(const ConsistencyOptions& options) {
  return std::make_unique<ClosingClocks>(options.num_workers, options.num_workers);
}

}  // namespace trireme::server
