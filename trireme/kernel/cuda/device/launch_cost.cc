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
  const std::unique_ptr<Session> session = make_session(device);
  TR_ASSIGN_OR_RETURN(const auto chain, session->capture([&]() -> Status {
    for (int i = 0; i < kChain; ++i) TR_RETURN_IF_ERROR(launch(session->stream(), *nothing, {1}, {32}, 0));
    return {};
  }));
  double best = 0;
  for (int round = 0; round < kRounds; ++round) {
    const std::shared_ptr<Event> begin = session->record_with_time();
    TR_RETURN_IF_ERROR(session->launch(*chain));
    const std::shared_ptr<Event> end = session->record_with_time();
    TR_ASSIGN_OR_RETURN(const double ns, session->ns_between(begin, end));
    best = round == 0 ? ns : std::min(best, ns);
  }
  return best / kChain;
}

}  // namespace trireme::kernel::cuda
