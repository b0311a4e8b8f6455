// How an Execution runs on a GPU: strands one after the other on one stream, each waited for by the thread
// that enqueued it, or on a DeviceQueue and not waited for. Internal to exec.
//
// Tensors of the host have a copy on the device: variables and inputs are copied in by the first strand of a
// run that reads them, bound outputs and written variables are copied out by the strand that writes them. The
// kernels of a strand are captured into a graph in the second run and replayed from then on.
//
// take_*(), add_call() and begin() are called on the loop while nothing runs; run() on one thread at a time.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "trireme/exec/compiled.h"
#include "trireme/exec/host_operands.h"
#include "trireme/runtime/runtime.h"

namespace trireme::exec {

class NodeTimes;

class DeviceRun {
 public:
  DeviceRun(const CompiledPlan& plan, const ExecutionOptions& options);
  ~DeviceRun();

  // The tensor that kernels see: itself where it is on the device, else its copy there.
  Result<Tensor> take_input(std::size_t index, const Tensor& tensor);  // again with every feed
  Result<Tensor> take_variable(Value value, const Tensor& tensor);
  Result<Tensor> take_bound(Value value, const Tensor& tensor);
  // In the order of strands and their nodes. The spans stay valid, their tensors may change with feeds.
  void add_call(std::int32_t node, std::span<const Tensor> in, std::span<const Tensor> out,
                const Buffer& arena);

  void begin();
  void run(std::int32_t strand, NodeTimes* times, const runtime::Runtime& rt);
  Status result() const;  // of the last run()
  // With a queue: the point where that strand has ended, for strands that a notice waits for; else null.
  std::shared_ptr<Event> point() const;
  // A value on the host: the caller's memory where it is fed or bound there, else a copy. On the loop, while
  // a strand may run: the value must be written already.
  Result<Tensor> on_host(const Tensor& value);
  // The same of all inputs of a host op, with room for its outputs; and after the call the outputs are copied
  // to the device. Whatever is taken is given back when the call has ended.
  Status take_operands(std::span<const Tensor> inputs, std::span<const Tensor> outputs, HostOperands& taken);
  Status write_outputs(const HostOperands& taken, std::span<const Tensor> outputs);
  void give_back(const HostOperands& taken);
  // The values are on the device, where they may so far be with the caller only. On the loop, as on_host().
  Status ready_on_device(std::span<const Tensor> values);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace trireme::exec
