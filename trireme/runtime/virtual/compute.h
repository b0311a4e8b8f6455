// The cores of one virtual machine: requests start in order of arrival when enough cores are free, run their
// function inline at that moment and hold the cores for the time the cost model says.
#pragma once

#include <deque>
#include <vector>

#include "trireme/runtime/runtime.h"

namespace trireme::runtime::virt {

class Core;
class VirtualNode;

class Cores {
 public:
  Cores(Core& core, const cost::MachineModel& model) : core_(core), model_(model), free_cores_(num_cores()) {}
  int num_cores() const { return model_.cores > 0 ? model_.cores : 1; }

  void submit(VirtualNode& node, ComputeRequest request);
  // Lets waiting requests start from an event of its own.
  void pump_soon();
  // Frees the cores that a dead VirtualNode held; its waiting requests are skipped.
  void node_ended(const VirtualNode& node);
  void destroy_requests();

 private:
  struct Job {
    VirtualNode* node = nullptr;  // null: a free slot
    ComputeRequest request;
    int cores = 0;
    std::uint32_t generation = 0;
  };
  void pump();
  void begin(Job job);
  void finish(std::size_t slot, std::uint32_t generation);

  Core& core_;
  cost::MachineModel model_;
  int free_cores_;
  bool pump_pending_ = false;
  std::deque<Job> waiting_;
  std::vector<Job> running_;
  std::uint32_t next_generation_ = 0;
};

}  // namespace trireme::runtime::virt
