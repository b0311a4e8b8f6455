// The passes that make a graph of the trainer ready to be compiled, in the only order in which they run.
// Tests run them in this order, for every kind of target, on random graphs and nets.
#pragma once

#include <span>

#include "trireme/graph/pass/passes.h"

namespace trireme::graph {

enum class Precision : std::uint8_t { kF32, kTf32, kBf16, kF16 };

// What decides which passes run. Only facts about the target: it need not be here.
struct PipelineTarget {
  bool on_gpu = false;
  Precision precision = Precision::kF32;
  bool fuses_norms = true;    // on the CPU: whether batch norms take in relu and residuals
  bool lowers_gates = false;  // on the CPU: whether lstm has kernels in bf16
  PassOptions options = {};   // what is not said above

  bool is_low() const { return precision == Precision::kBf16 || precision == Precision::kF16; }
  PassOptions pass_options() const;  // all that the passes of the pipeline take
};

struct PipelineRow {
  const PassRow* pass;
  bool (*when)(const PipelineTarget& target);
};
std::span<const PipelineRow> pipeline();

// Every row whose `when` is true of the target, in order. For graphs that have their gradients.
Result<Graph> run_pipeline(const PipelineTarget& target, const Graph& graph);

}  // namespace trireme::graph
