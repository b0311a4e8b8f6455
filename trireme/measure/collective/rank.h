// A rank of ours under measurement: joins its group as any rank of a job does, then measures what the driver
// asks for.
#pragma once

#include <string>

#include "trireme/net/factory.h"

namespace trireme::measure {

struct RankOptions {
  std::string driver;     // path of the driver's socket
  std::string transport;  // a row of net/table.cc
  net::ConnectOptions connect;
  TimeNs spin_ns = 0;           // as the Runtime has it
  bool shared_buffers = false;  // tensors of Group::allocate instead of the heap
};

// Until the driver says "quit" or goes away. The failure was also told to the driver.
runtime::Task<Status> serve_rank(runtime::Runtime& rt, RankOptions options);

}  // namespace trireme::measure
