// Weights: one rank's variables, or its pieces of them. Parameters and running statistics are views of one
// vector per bucket, which lies as the bucket's gradients do, so that rules exchange whole buckets without a
// copy.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "trireme/engine/gpu_side.h"
#include "trireme/engine/state/held_state.h"
#include "trireme/io/safetensors.h"
#include "trireme/prepare/own_update.h"
#include "trireme/prepare/prepared.h"
#include "trireme/tensor/host_zeros.h"

namespace trireme::engine {

struct WeightsOptions {
  // Not empty: one vector per bucket, which other replicas use too. Whether this one writes what they start
  // with, and with a state of the optimiser beside them (prepare::state_layout), which may be null.
  std::vector<Tensor> shared = {};
  bool fills = true;
  Tensor shared_states = {};
  int rank = 0;  // of the plan's mesh
  // The rule's model beside the replica's own.
  bool with_agreed = false;
};

// On the loop of one Runtime.
class Weights {
 public:
  // `gpu` outlives it; where it has a mirror all variables are there too.
  static Result<std::unique_ptr<Weights>> make(runtime::Runtime& rt, const prepare::Prepared& prepared,
                                               GpuSide& gpu, WeightsOptions options);

  exec::Variables& variables() { return variables_; }
  exec::Variables& judged() { return options_.with_agreed ? agreed_variables_ : variables_; }
  const std::vector<Tensor>& vectors() const { return vectors_; }  // per bucket
  const std::vector<Tensor>& agreed() const { return agreed_; }    // per bucket
  // The variables with parameters and statistics in other memory, laid out as vectors().
  Result<exec::Variables> variables_in(const std::vector<Tensor>& memory) const;
  bool fills() const { return options_.fills; }
  // Whether others use that memory too.
  bool is_shared(const Tensor& tensor) const;

  // Initial values, the same on every rank, made on the pool.
  runtime::Task<Status> initialise(std::uint64_t seed);
  // Parameters, frozen ones and running statistics; and with the optimiser's state. In name order. Views of
  // the live memory, which on a GPU is its copy on the host as of this call. Fails where the GPU does.
  Result<io::NamedTensors> named(bool with_state) const { return named(variables_, with_state); }
  // The same without what is on the GPU.
  Result<io::NamedTensors> places(bool with_state) const { return named(variables_, with_state, nullptr); }
  Result<io::NamedTensors> named_agreed() const { return named(agreed_variables_, false); }
  // These of its variables as the ranks of the plan's mesh hold them. kInvalid: the plan lays one out so that
  // this rank has something else of it.
  Result<HeldState> held(const io::NamedTensors& tensors, const IsShared& is_shared = {}) const;
  // What was written on the host is on the GPU.
  Status publish() const;
  // Where replicas divide what belongs to a parameter (Plan::zero_level): this one's part of it; null: none.
  const prepare::ParameterSlice* own_slice(const std::string& parameter) const;
  // Where they divide parameters too: what other replicas have of a bucket's takes no memory, and is
  // undefined, until it is taken again. So it is at the beginning.
  void give_back_others(std::size_t bucket);
  void take_others(std::size_t bucket);

 private:
  Weights(runtime::Runtime& rt, const prepare::Prepared& prepared, GpuSide& gpu, WeightsOptions options)
      : rt_(rt), prepared_(prepared), gpu_(gpu), options_(std::move(options)) {}
  Device& device() const { return rt_.is_phantom() ? phantom_device() : cpu_device(); }
  Result<std::vector<Tensor>> new_vectors() const;
  Status make_vectors();
  comm::Chunk own_part(std::size_t bucket) const;
  Status bind(exec::Variables& to, const std::vector<Tensor>& memory, bool fills) const;
  Status make_variables();
  Status add_states();
  Status make_agreed();
  Status take_slices();
  // What this replica has of a variable.
  Tensor own_of(const Tensor& whole, const std::string& name) const;
  Status mirror_all();
  Result<io::NamedTensors> named(const exec::Variables& from, bool with_state) const {
    return named(from, with_state, &gpu_);
  }
  // `gpu`: from where values come; null: they stay as they are.
  Result<io::NamedTensors> named(const exec::Variables& from, bool with_state, const GpuSide* gpu) const;

  runtime::Runtime& rt_;
  const prepare::Prepared& prepared_;
  GpuSide& gpu_;
  const WeightsOptions options_;
  std::vector<Tensor> vectors_, agreed_;
  exec::Variables variables_, agreed_variables_;
  std::vector<GivenPages> others_;                         // per bucket
  std::map<std::string, prepare::ParameterSlice> slices_;  // by parameter
};

}  // namespace trireme::engine
