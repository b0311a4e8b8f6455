// What compile() makes and every Execution of it reads. Immutable after compile(). Internal to exec.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "trireme/exec/executor.h"
#include "trireme/exec/partition.h"
#include "trireme/exec/phases.h"
#include "trireme/graph/pass/passes.h"
#include "trireme/graph/storage.h"
#include "trireme/kernel/cuda/cuda.h"

namespace trireme::exec {

using graph::Value;

// How one node runs.
struct NodePlan {
  op::KernelFn run = nullptr;                            // null: a host op, or nothing
  std::string kernel;                                    // its name
  std::shared_ptr<const kernel::cuda::CudaKernel> cuda;  // on a GPU, instead of `run`; equal nodes share it
  std::unique_ptr<op::KernelState> state;
  std::int64_t workspace_offset = -1;  // in the arena, in scratch memory where there are phases
  std::int64_t workspace_bytes = 0;
  std::size_t first_slot = 0;  // its inputs, then its outputs, in the flat list of tensors of an Execution
};

// An input, a variable or a bound output: a tensor that comes from outside.
struct External {
  std::string name;
  Value value;
};

struct CompiledPlan final : public CompiledGraph {
  const graph::Graph& graph() const override { return program; }
  std::int64_t arena_bytes() const override { return places.arena_bytes; }
  std::int64_t scratch_bytes() const override { return places.scratch_bytes; }
  int num_phases() const override { return phases.num; }
  std::vector<std::string> inputs_of_phase(int phase) const override;
  std::set<std::string> variables_of_phase(int phase) const override;
  cost::OpCost phase_cost(int phase) const override;
  cost::OpCost cost() const override;
  std::map<std::string, std::string> kernels() const override;
  int num_strands() const override { return static_cast<int>(part.strands.size()); }
  Outline outline() const override;
  cost::Work strand_work(std::int32_t strand) const override;
  std::vector<std::pair<std::string, TensorType>> bound_outputs() const override;
  bool is_behind(int notice, int gate) const override;
  kernel::cuda::CudaDevice* gpu() const { return kernel::cuda::as_cuda(options.device.get()); }
  MemoryReport memory() const override;
  std::string to_text() const override;

  const NodePlan& node_plan(std::int32_t node) const { return nodes[static_cast<std::size_t>(node)]; }
  const graph::MemoryPlan::Place& place(Value v) const {
    return places.places[static_cast<std::size_t>(v.node)][static_cast<std::size_t>(v.index)];
  }

  graph::Graph program;
  CompileOptions options;
  Phases phases;
  std::vector<std::int32_t> notice_phase;               // per notice: the phase in whose run it is given
  std::vector<std::vector<std::int32_t>> phase_inputs;  // per phase: the inputs it reads, ascending
  Partition part;
  std::vector<Value> pinned;  // the Values of `bound`
  graph::MemoryPlan places;
  std::vector<NodePlan> nodes;
  std::size_t num_slots = 0, num_host_slots = 0;  // those of host ops come first
  std::vector<External> inputs, variables, bound;
  // Slots that show an input, per input: (slot, Value it shows).
  std::vector<std::vector<std::pair<std::size_t, Value>>> input_slots;
};

}  // namespace trireme::exec
