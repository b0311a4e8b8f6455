// Factors of gradients at servers that multiply (Chilimbi et al., Project Adam, OSDI 2014): which buckets are
// pushed so, and their products, cut to the rows that a server keeps.
#pragma once

#include "trireme/prepare/prepared.h"
#include "trireme/server/factor_link.h"

namespace trireme::prepare {

// Per bucket; nothing where the plan has none of factors.
std::vector<server::FactorKey> factor_keys(const Prepared& prepared);

// By the kernels of the plan, on the host.
server::MakeProduct product_maker(const Prepared& prepared);

}  // namespace trireme::prepare
