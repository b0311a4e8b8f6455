// A communicator of NCCL among the ranks of a group, with a stream of its own. Internal to comm.
#pragma once

#include <memory>
#include <string>

#include "trireme/comm/group.h"
#include "trireme/comm/nccl/nccl.h"
#include "trireme/kernel/cuda/cuda.h"

namespace trireme::comm {

class NcclStream final : public NcclQueue {
 public:
  explicit NcclStream(kernel::cuda::CudaDevice& device) : stream_(kernel::cuda::make_kernel_stream(device)) {}
  void enter() override { stream_->enter(); }
  void* stream() override { return stream_->raw_stream(); }
  std::shared_ptr<Event> record() override { return stream_->record(); }
  Status finish() override { return stream_->synchronize(); }

 private:
  const std::unique_ptr<kernel::cuda::KernelStream> stream_;
};

struct NcclLink {
  std::unique_ptr<NcclStream> queue;  // outlives nccl
  std::unique_ptr<Nccl> nccl;
};

struct NcclSetup {
  std::shared_ptr<Device> device;
  std::string library = "libnccl.so.2";
  std::uint16_t slot = 0;         // of the group, for steps 16 to 18
  TimeNs deadline = 2 * kSecond;  // of calls later on
  Status made = {};               // of what this rank needs beside
};
// Every rank calls it: a link, or the same failure everywhere.
runtime::Task<Result<NcclLink>> connect_nccl(runtime::Runtime& rt, Group& group, NcclSetup setup);

}  // namespace trireme::comm
