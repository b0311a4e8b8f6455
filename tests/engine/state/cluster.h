// A virtual cluster whose processes come one after the other and share the disks of its machines, and models
// that are cut over its ranks.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "trireme/comm/group.h"
#include "trireme/engine/state/held_state.h"
#include "trireme/runtime/virtual/world.h"

namespace trireme::engine::testing {

class Cluster {
 public:
  using Body = std::function<runtime::Task<Status>(runtime::Runtime& rt, comm::Group& group)>;

  explicit Cluster(std::vector<runtime::FaultSpec> faults = {});
  // A process per entry of `machines`, each the rank of its place, to its end. As in train_rank a failure of
  // one rank is the verdict of all. Those that were killed have kPeerLost.
  std::vector<Status> run(std::vector<int> machines, const Body& body);
  // All ranks must end well.
  void run_well(std::vector<int> machines, const Body& body);
  // One process of machine 0.
  void run_alone(const std::function<runtime::Task<void>(runtime::Runtime&)>& body);

  const std::vector<net::SendRecord>& sends() const { return sends_; }  // of all ranks of the last run
  std::vector<std::string> log;                                         // of rank 0 in the last run

 private:
  std::unique_ptr<runtime::VirtualWorld> world_;
  std::vector<net::SendRecord> sends_;
  int num_runtimes_ = 0;
};

// A tensor per dtype and kind of shape, filled with values that tell their places, plus `offset`.
io::NamedTensors whole_model(float offset = 0);

// How the model is cut: the layout where it fits a tensor, else as a whole on every rank; with rows of shards
// over the data axis and a tensor that the last rank has alone.
struct Cut {
  const char* name;
  parallel::Mesh mesh;
  const char* layout;
};
std::vector<Cut> cuts();
parallel::Holdings holdings_of(const Cut& cut);
// This rank's memory: filled with its part of the model, or with -1. Blocks are views of one tensor.
HeldState hold(const Cut& cut, int rank, const io::NamedTensors* model);
// Fails the test where the memory is not this rank's part of the model.
void expect_part(const HeldState& holding, const io::NamedTensors& model);
Tensor tensor_named(const io::NamedTensors& model, const std::string& name);

}  // namespace trireme::engine::testing
