// DeviceCoder: the vectors of a rank's shards as the messages of CodedSum, made and summed on its GPU, where
// residuals stay. Internal to comm.
#pragma once

#include "trireme/comm/device/device_sum.h"
#include "trireme/comm/device/message_format.h"
#include "trireme/comm/sum/gradient_sum.h"
#include "trireme/kernel/cuda/cuda.h"

namespace trireme::comm {

// Room for a message of that vector at any step, in whole lines of memory.
Result<std::size_t> message_room(const DeviceSumOptions& options, std::size_t vector);

// Used by one thread at a time; the ones that take a Session enqueue and do not wait unless they say so.
class DeviceCoder {
 public:
  // Null: gradients travel as they are.
  static Result<std::unique_ptr<DeviceCoder>> make(const DeviceSumOptions& options, int rank);

  bool encodes_at(std::int64_t step) const { return options_.coding.encodes_at(step); }
  bool is_fixed() const { return is_fixed_; }
  std::size_t room(std::size_t vector) const { return rooms_[vector]; }
  std::size_t largest_room() const;

  // What the step's messages of a vector are made and read by; at a step that encodes nothing, values as they
  // are.
  Status prepare(std::int64_t step, std::size_t vector);
  Status encode(kernel::cuda::KernelStream& stream, std::size_t vector, std::size_t shard,
                const float* values, std::byte* message);
  // Velocities gather what a shard has at a step that encodes nothing.
  bool watches() const { return options_.coding.row != nullptr && options_.coding.momentum > 0; }
  Status watch(kernel::cuda::KernelStream& stream, std::size_t vector, std::size_t shard,
               const float* values);
  // out = the sum of all shards' messages along the fixed tree. Waits. kCorrupt: one is none.
  Status sum(kernel::cuda::KernelStream& stream, std::size_t vector,
             std::span<const std::byte* const> messages, float* out);
  // Bytes of a message that was made. Waits.
  Result<std::size_t> length(kernel::cuda::KernelStream& stream, std::size_t vector,
                             const std::byte* message);
  // A message has at least so many.
  std::size_t least_length(std::size_t vector) const;

  // Halves without frames, to be summed by a library; at steps that encode.
  Result<const HalvesFormat*> halves(std::size_t vector);
  Status encode_halves(kernel::cuda::KernelStream& stream, std::size_t vector, const float* values,
                       std::byte* halves);
  Status widen(kernel::cuda::KernelStream& stream, std::size_t vector, const std::byte* halves, float* out);

  // "residual/<vector>", "velocity/<vector>": [shards of this rank, elements], on the GPU.
  std::vector<std::pair<std::string, Tensor>> state() const;
  SumStats stats;

 private:
  struct Way {  // of one vector
    double fraction = -1;
    bool encodes = false;
    kernel::cuda::MessageFormat format;
    std::unique_ptr<kernel::cuda::MessageCoder> coder;
  };
  struct Halves {
    HalvesFormat format;
    std::unique_ptr<kernel::cuda::MessageCoder> coder;
  };
  DeviceCoder(const DeviceSumOptions& options, int rank);
  kernel::cuda::CudaDevice& gpu() const;
  Result<Tensor> zeros(std::int64_t elems) const;
  static float* row(const Tensor& of, std::size_t shard);

  const DeviceSumOptions options_;
  const collective::LeafRun run_;
  bool is_fixed_ = true;
  std::vector<std::size_t> rooms_;
  std::vector<Way> ways_;
  std::vector<std::unique_ptr<kernel::cuda::MessageCoder>> watchers_;  // by vector, where they are needed
  std::vector<Halves> halves_;
  std::vector<Tensor> residuals_, velocities_;  // null: none are kept
};

}  // namespace trireme::comm
