// DeviceSum: sums over the logical shards of all ranks, of vectors that lie in the memory of GPUs.
//
// The gradients of a rank's shards are in memory(); afterwards the sum over all shards of all ranks is where
// that of its first shard was. The *method* they are added:
//   alone   one rank: on its GPU.
//   mapped  ranks of one host that see each other's GPU memory, as one process or by CUDA IPC. All meet,
//           every rank adds its chunk of all shards and writes it to everybody, all meet again. Nothing
//           passes through the host.
//   nccl    a rank adds its own shards, then NCCL does the rest.
//   staged  with a codec only: messages pass through the host.
// Alone, mapped and staged add along the fixed tree over shards: the same bits for any number of ranks.
// NCCL's order depends on the number of ranks.
//
// With a codec every shard's vector is encoded on its GPU, with a residual that stays there, and every rank
// sums the messages of all shards: the bytes and the result of CodedSum's gather, to the bit. Mapped ranks
// read each other's messages where they are; NCCL gathers them, but shorter floats (fp16, bf16) of one shard
// per rank it adds itself, as such.
//
// On the loop of one Runtime. Sums are made one after the other, in the order of their calls, which is the
// same on every rank. A failure poisons the group.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "trireme/comm/sum/gradient_sum.h"

namespace trireme::comm {

struct DeviceSumOptions {
  std::shared_ptr<Device> device;  // this rank's GPU
  std::string method = "auto";     // auto, mapped, nccl; with a codec also staged
  bool one_host = false, one_process = false;
  bool same_bits = true;                       // for any number of ranks: rules out NCCL
  std::vector<std::int64_t> vector_elems;      // f32 vectors, the same on every rank
  std::vector<collective::LeafRun> leaf_runs;  // the shards of each rank, all the time
  std::int32_t num_leaves = 1;
  TimeNs deadline = 2 * kSecond;  // of a call of NCCL that all ranks have come to
  std::uint16_t setup_slot = 0;   // for calls of the group while ways are tried; steps count from 0
  std::string nccl_library = "libnccl.so.2";
  // A codec that has_device_codec(): what vectors travel in, and what of each is encoded.
  codec::Coding coding = {};
  std::vector<codec::Packing> packings = {};
};

// Whether there are kernels for what a job says about its codec; otherwise gradients are encoded on the host.
bool codes_on_device(const codec::Coding& coding);

struct DeviceCall {
  std::uint32_t step = 0;
  // Slots of the group for the meetings before and after.
  std::uint16_t ready_slot = 0, done_slot = 0;
  std::string label;       // "bucket 0"
  std::size_t vector = 0;  // into vector_elems
};

class DeviceSum {
 public:
  virtual ~DeviceSum() = default;
  virtual std::string_view method() const = 0;
  virtual Tensor memory(std::size_t shard, std::size_t vector) const = 0;  // of this rank
  virtual runtime::Task<Status> sum(DeviceCall call) = 0;
  // Orderly end, by all ranks, after the last sum. What others have mapped stays as long as what it returns:
  // until everybody has left the group.
  virtual runtime::Task<Status> close() = 0;
  virtual std::shared_ptr<void> keep_mapped() const = 0;

  // What encoders keep, on the GPU: "residual/<vector>" (and "velocity/..."), [shards of this rank,
  // elements]; empty without a codec. Between sums.
  virtual std::vector<std::pair<std::string, Tensor>> state() const = 0;
  virtual const SumStats* coding() const = 0;  // null without a codec
};

// Every rank calls it. Null: no method can be had, and why was logged; gradients must pass through the host.
// A method that was asked for by name and cannot be had is an error on all ranks.
runtime::Task<Result<std::unique_ptr<DeviceSum>>> make_device_sum(runtime::Runtime& rt, Group& group,
                                                                  DeviceSumOptions options);

}  // namespace trireme::comm
