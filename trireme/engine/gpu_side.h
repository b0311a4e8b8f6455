// GpuSide: what a replica has on its GPU. Where there is none, or the model does not stay there, parts of it
// are null.
#pragma once

#include <memory>

#include "trireme/engine/shared_arena.h"
#include "trireme/exec/device_ahead.h"
#include "trireme/exec/device_mirror.h"
#include "trireme/exec/device_queue.h"
#include "trireme/runtime/runtime.h"
#include "trireme/tensor/tensor.h"

namespace trireme::engine {

struct GpuSide {
  std::shared_ptr<Device> device;              // null: the graphs are compiled for the host
  std::shared_ptr<exec::DeviceAhead> ahead;    // samples go there before they are used; null: they do not
  std::unique_ptr<exec::DeviceMirror> mirror;  // of the variables; null unless the model stays there
  std::unique_ptr<SharedArena> arena;          // null where mirror is; steps and evaluations take turns
  // Not null: one shard, whose model stays there and is added to nobody's. Its steps and updates follow each
  // other there, and the host waits for nothing but the loss, while backward runs.
  std::shared_ptr<exec::DeviceQueue> queue;
  Tensor queued_metrics;  // with a queue: loss and correct count, in page-locked memory of the host

  // `resident`: the model stays there. `queued`: it may have a queue, where page-locked memory can be had.
  static GpuSide make(const std::shared_ptr<Device>& device, bool ahead, bool resident, bool queued);

  // Between the host and the GPU, waiting until it is done.
  Status copy(const Tensor& from, const Tensor& to) const;
  // All that is on the queue has ended, where there is one.
  runtime::Task<Status> wait_for_queue(runtime::Runtime& rt) const;
};

}  // namespace trireme::engine
