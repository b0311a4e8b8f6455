// Rates: what a worker of a real host can count on, out of a calibration or of assumptions. Pure.
#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "trireme/cost/calibration.h"

namespace trireme::cost {

struct Rates {
  MachineModel machine;  // a worker's share of its host
  CommModel comm;
  bool direct = false;  // sums go through memory that all ranks have mapped
  bool calibrated = false;
  std::vector<double> speeds;  // per worker, in relation to `machine`; empty: all alike
  // What nodes were measured to take; null: nothing was. It makes predictions. What decides about the
  // arithmetic of a run is priced without the nodes (no Work), by the roofline.
  std::shared_ptr<const OpTimes> op_times;
  int ranks_at_once = 1;  // of this host, that compute at the same time

  // `cost` is that of all the work, which follows each other in `strands` strands of which `at_once` of this
  // worker compute at a time. Without op times, or where the nodes are not known (no work): by the roofline.
  WorkSeconds seconds(const OpCost& cost, const Work& work, int threads, int strands = 1,
                      int at_once = 1) const;
};

// One of `ranks_on_host` ranks, each with `cores_per_rank` threads; `num_cores` are the host's. All ranks
// are on this host unless `link` says what lies between hosts. Processors that more ranks than there are
// cores share are slower by that much, and all ranks share the memory. Without a calibration, or where it
// has nothing about the transport, the defaults of the models.
struct HostShare {
  std::string_view transport;
  int ranks_on_host = 1, cores_per_rank = 1, num_cores = 1;
  const LinkModel* link = nullptr;
};
Rates host_rates(const Calibration* calibration, const HostShare& share);

// "BANDWIDTH[,LATENCY[,OVERHEAD]]", as "10gbit,25us,2us"; what is not there is as LinkModel has it.
Result<LinkModel> parse_link(std::string_view text);

}  // namespace trireme::cost
