#include "trireme/runtime/virtual/compute.h"

#include <algorithm>

#include "trireme/runtime/inline_context.h"
#include "trireme/runtime/virtual/core.h"

namespace trireme::runtime::virt {

void Cores::submit(VirtualNode& node, ComputeRequest request) {
  ++node.activity_.compute_in_flight;
  Job job;
  job.node = &node;
  request.width = std::max(1, request.width);
  job.cores = std::min(request.width, num_cores());
  job.request = std::move(request);
  waiting_.push_back(std::move(job));
  pump_soon();
}

void Cores::pump_soon() {
  if (pump_pending_) return;
  pump_pending_ = true;
  core_.soon(nullptr, Label::kCompute, [this] {
    pump_pending_ = false;
    pump();
  });
}

void Cores::pump() {
  // Requests of a paused VirtualNode wait without blocking the others; everybody else is served strictly in
  // order.
  for (std::size_t i = 0; i < waiting_.size();) {
    if (waiting_[i].node->dead) {
      const Job gone = std::move(waiting_[i]);
      waiting_.erase(waiting_.begin() + static_cast<std::ptrdiff_t>(i));
    } else if (waiting_[i].node->paused) {
      ++i;
    } else if (waiting_[i].cores > free_cores_) {
      return;
    } else {
      Job job = std::move(waiting_[i]);
      waiting_.erase(waiting_.begin() + static_cast<std::ptrdiff_t>(i));
      begin(std::move(job));
    }
  }
}

void Cores::begin(Job job) {
  free_cores_ -= job.cores;
  job.generation = ++next_generation_;
  const TimeNs model_time = cost::compute_time(job.request.cost, model_, job.request.width);
  const TimeNs duration = static_cast<TimeNs>(static_cast<double>(model_time) * job.node->slow_factor);
  auto slot = std::find_if(running_.begin(), running_.end(), [](const Job& j) { return j.node == nullptr; });
  if (slot == running_.end()) slot = running_.emplace(running_.end());
  const auto index = static_cast<std::size_t>(slot - running_.begin());
  const std::uint32_t generation = job.generation;
  ComputeFn fn = std::move(job.request.fn);
  const int width = job.request.width;
  *slot = std::move(job);
  core_.at(nullptr, core_.now() + duration, Label::kCompute,
           [this, index, generation] { finish(index, generation); });
  if (fn && !core_.spec().phantom) {
    InlineContext context(width);
    fn(context);
  }
}

void Cores::finish(std::size_t slot, std::uint32_t generation) {
  Job& job = running_[slot];
  if (job.node == nullptr || job.generation != generation) return;  // its VirtualNode died meanwhile
  VirtualNode* node = std::exchange(job.node, nullptr);
  free_cores_ += job.cores;
  --node->activity_.compute_in_flight;
  if (job.request.done) core_.soon(node, Label::kCompute, std::move(job.request.done));
  if (!waiting_.empty()) pump();
}

void Cores::node_ended(const VirtualNode& node) {
  for (Job& job : running_)
    if (job.node == &node) {
      free_cores_ += job.cores;
      job.node = nullptr;
    }
  if (!waiting_.empty()) pump_soon();
}

void Cores::destroy_requests() {
  const auto waiting = std::move(waiting_);
  const auto running = std::move(running_);
  waiting_.clear();
  running_.clear();
}

}  // namespace trireme::runtime::virt
