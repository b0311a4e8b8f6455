// RunObserver: what a run tells while it starts and trains.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "trireme/base/status.h"
#include "trireme/base/units.h"
#include "trireme/record/progress.h"

namespace trireme::start {

// Each is called on the thread that started the run, or on the loop of rank 0 where ranks are threads.
struct RunObserver {
  // "reading the data ..."; empty: that is done.
  std::function<void(std::string_view text, TimeNs now)> doing = [](std::string_view, TimeNs) {};
  // What was picked for the job, and what looks wrong with the data; a sentence each.
  std::function<void(const std::string&)> note = [](const std::string&) {};
  // A line that nobody should miss: "warning: ...", a worker that was lost.
  std::function<void(std::string_view)> line = [](std::string_view) {};
  // Asked for when the ranks of this process begin; null: nobody watches.
  std::function<std::unique_ptr<record::Progress>()> progress = [] { return nullptr; };
  // run_rank tells why this rank ends, where no launcher of ours reads it from the run folder.
  std::function<void(const Status&)> failed = [](const Status&) {};
};

}  // namespace trireme::start
