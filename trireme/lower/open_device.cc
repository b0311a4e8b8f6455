#include "trireme/lower/open_device.h"

#include <fmt/format.h>

#include "trireme/kernel/compiled_texts.h"
#include "trireme/kernel/cuda/cuda.h"
#include "trireme/runtime/files.h"

namespace trireme::lower {

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
  if (const std::string file = kernel::compiled_texts().file(); !file.empty()) {
    const Result<Bytes> kept = co_await rt.files().read(file);
    if (kept.ok()) kernel::compiled_texts().take(as_text(*kept));
  }
  Device* const device = &kernel::cuda::as_device(**opened);
  co_return std::shared_ptr<Device>(std::move(*opened), device);
}

Task<void> keep_texts(runtime::Runtime& rt) {
  const std::string file = kernel::compiled_texts().file();
  if (file.empty()) co_return;
  const std::string texts = kernel::compiled_texts().to_keep();
  if (texts.empty()) co_return;
  const std::size_t slash = file.find_last_of('/');
  Status status;
  if (slash != std::string::npos && slash > 0) status = co_await rt.files().make_dirs(file.substr(0, slash));
  if (status.ok()) status = co_await rt.files().write_atomic(file, as_bytes(texts));
  if (!status.ok()) rt.log(fmt::format("compiled GPU kernels are not kept: {}", status.message()));
}

}  // namespace trireme::lower
