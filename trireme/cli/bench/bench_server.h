// `trireme bench server`: parameter servers against the link.
#pragma once

#include <string>

namespace trireme::cli {

struct ServerBenchArgs {
  std::string workers = "1,2", servers = "1,2", sizes;
  std::string transport = "shm";
  double gbit = 0, latency_us = -1;  // of the link; not given: it is measured first
  int repeats = 5;
  double seconds = 0;  // in all; 0: 0.2 per repeat
  bool json = false;
};
int run_server_bench(const ServerBenchArgs& args);

}  // namespace trireme::cli
