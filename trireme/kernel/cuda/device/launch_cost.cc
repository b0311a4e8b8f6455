#include "trireme/kernel/cuda/cuda.h"

#include <algorithm>

#include "trireme/kernel/cuda/device/device.h"

namespace trireme::kernel::cuda {

extern const char kNothingText[];  // launch_cost.cu

namespace {

constexpr int kChain = 1000, kRounds = 5;

}  // namespace

Result<double> launch_ns(CudaDevice& device) {
  TR_ASSIGN_OR_RETURN(const Function* const nothing, device.function(kNothingText, "nothing"));
  const std::unique_ptr<KernelStream> stream = make_kernel_stream(device);
  TR_ASSIGN_OR_RETURN(const auto chain, stream->capture([&]() -> Status {
    for (int i = 0; i < kChain; ++i)
      TR_RETURN_IF_ERROR(launch(stream->cuda_stream(), *nothing, {1}, {32}, 0));
    return {};
  }));
  double best = 0;
  for (int round = 0; round < kRounds; ++round) {
    const std::shared_ptr<Event> begin = stream->record_with_time();
    TR_RETURN_IF_ERROR(stream->launch(*chain));
    const std::shared_ptr<Event> end = stream->record_with_time();
    TR_ASSIGN_OR_RETURN(const double ns, stream->ns_between(begin, end));
    best = round == 0 ? ns : std::min(best, ns);
  }
  return best / kChain;
}

}  // namespace trireme::kernel::cuda
