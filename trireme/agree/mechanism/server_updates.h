// What the servers of a rule do with pushes, for whoever starts them.
#pragma once

#include "trireme/agree/agree.h"
#include "trireme/server/server.h"

namespace trireme::agree {

// alpha of EASGD: as given, or 0.9 / workers (Zhang, Choromanska, LeCun 2015, section 5: beta = 0.9).
double elasticity_of(const OptionValues& options, int num_workers);

// c <- c + alpha (x - c), where x is what was pushed and c what is kept.
Result<server::UpdateSpec> elastic_update(std::span<const server::StoredPart> parts, double alpha);

// How gradients and weights travel between the workers and the servers of a rule; by the parts of the keys.
server::LinkCoding link_coding_of(const AgreementRow& row, const RuleOptions& options);

// The servers of `row`: consistency, its options, the codec of the link, and the update where it is the
// rule's own. The caller adds which server it is, layout and keys, and as make_update the job's optimiser
// where the row does not update on the worker. kInvalid: a rule without servers, or options that make no
// sense.
Result<server::ServerOptions> server_options_of(const AgreementRow& row, const RuleOptions& options,
                                                int num_workers);

}  // namespace trireme::agree
