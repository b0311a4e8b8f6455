// Ranks as threads of this process, each with a Runtime of its own, joined by the in-process transport.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "trireme/runtime/real/real_runtime.h"
#include "trireme/train/train_rank.h"

namespace trireme::start {

struct InProcessOptions {
  job::Job job;
  std::string run_dir;
  std::shared_ptr<const data::Dataset> data;
  std::shared_ptr<const cost::Rates> rates;        // RankContext
  std::optional<std::string> kernel_cache;         // RankContext
  std::function<void(std::string_view)> log_sink;  // lines of rank 0
  record::Progress* progress = nullptr;
  bool handle_interrupt = false;  // Ctrl-C: rank 0 asks everybody to checkpoint and stop
  std::vector<std::vector<runtime::RealFault>> faults;             // per rank; may be empty
  std::vector<double> slow_factors;                                // per rank; may be empty
  std::vector<std::vector<net::SendRecord>>* send_logs = nullptr;  // per rank
};

// Blocks until every rank ended; results in rank order.
std::vector<Result<record::Summary>> train_in_process(const InProcessOptions& options);

}  // namespace trireme::start
