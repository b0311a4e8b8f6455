// Bulk-synchronous over servers (Li et al. 2014, the sequential consistency of their section 3.5): clock c of
// all workers makes one update from the mean of their gradients g_i, computed at the same weights:
//   w_{c+1} = update(w_c, 1/W sum_i g_i(w_c))
// Servers add in worker order, so the bits do not depend on who is faster. A worker that is gone is left out
// of the mean.
#include "trireme/agree/mechanism/push_pull.h"
#include "trireme/agree/traffic.h"

namespace trireme::agree {

extern const AgreementRow kBspServer{
    .name = "bsp-server",
    .doc = "Every clock the servers apply the mean of all workers' gradients; all read the same weights.",
    .paper = "Li et al., Scaling distributed machine learning with the parameter server, OSDI 2014",
    .synchronous = true,
    .pace = Pace::kBound,
    .needs_server = true,
    .updates_here = false,
    .consistency = "bsp",
    .make = [](const RuleContext& context) { return make_push_pull(context, {}); },
    .traffic = to_servers,
    .no_codec = nullptr};

}  // namespace trireme::agree
