// What a training run of this host predicts its steps from.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "trireme/cost/rates.h"
#include "trireme/job/job.h"
#include "trireme/runtime/runtime.h"
#include "trireme/start/places.h"
#include "trireme/start/trouble.h"

namespace trireme::start {

struct RateSource {
  std::string transport;  // "none": a single rank
  int ranks_on_host = 1;
  int cores_on_host = 0;  // of all of them; 0: those of this process
  bool one_host = true;
  std::vector<SlowRank> slow;
};
// Null: nothing was calibrated. parallel.link, where it is given, says what lies between the ranks.
cost::Rates make_rates(const cost::Calibration* calibration, const job::Job& job, const RateSource& source);
// By the stored calibration where there is one that can be read.
runtime::Task<std::shared_ptr<const cost::Rates>> read_rates(runtime::Runtime& rt, const job::Job& job,
                                                             RateSource source, Places places);

}  // namespace trireme::start
