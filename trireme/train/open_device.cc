#include "trireme/train/open_device.h"

#include <fmt/format.h>

#include "trireme/kernel/cuda/cuda.h"

namespace trireme::train {

using runtime::Task;

Task<Result<std::shared_ptr<Device>>> open_device(runtime::Runtime& rt, std::string wanted, int ordinal) {
  if (wanted == "cpu") co_return std::shared_ptr<Device>();
  Result<std::shared_ptr<kernel::cuda::CudaDevice>> opened = Status(Code::kInternal, "[cuda] not opened");
  const cost::OpCost work{.flops = 1e8, .bytes = 1e7};
  runtime::ComputeFn open = [&](runtime::ComputeContext&) { opened = kernel::cuda::open_device(ordinal); };
  co_await rt.compute(work, std::move(open), 1, "open GPU");
  if (!opened.ok() && wanted == "auto") {
    rt.log(fmt::format("computing on the host: {}", opened.status().message()));
    co_return std::shared_ptr<Device>();
  }
  if (!opened.ok()) co_return opened.status();
  Device* const device = &kernel::cuda::as_device(**opened);
  co_return std::shared_ptr<Device>(std::move(*opened), device);
}

}  // namespace trireme::train
