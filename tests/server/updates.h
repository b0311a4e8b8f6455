// Updates as graphs, for servers under test.
#pragma once

#include "trireme/server/server.h"

namespace trireme::server::testing {

Result<UpdateSpec> sgd(std::span<const StoredPart> parts);
// State "<part>/sum", from 0.
Result<UpdateSpec> adagrad(std::span<const StoredPart> parts);
// State "<part>/velocity".
Result<UpdateSpec> momentum(std::span<const StoredPart> parts);
// Reads "clip", which servers do not have.
Result<UpdateSpec> clipped_sgd(std::span<const StoredPart> parts);

}  // namespace trireme::server::testing
