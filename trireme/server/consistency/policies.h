// The policies of table.cc, one file each.
#pragma once

#include "trireme/server/consistency/consistency.h"

namespace trireme::server {

std::unique_ptr<Consistency> make_bsp(const ConsistencyOptions& options);
std::unique_ptr<Consistency> make_ssp(const ConsistencyOptions& options);
std::unique_ptr<Consistency> make_async(const ConsistencyOptions& options);
std::unique_ptr<Consistency> make_soft(const ConsistencyOptions& options);
std::unique_ptr<Consistency> make_late(const ConsistencyOptions& options);

}  // namespace trireme::server
