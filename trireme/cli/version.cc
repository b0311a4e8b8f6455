// `trireme version`.
#include <cstdio>

#include "trireme/base/json.h"
#include "trireme/base/version.h"
#include "trireme/cli/command.h"
#include "trireme/kernel/cuda/cuda.h"
#include "trireme/kernel/kernel.h"

namespace trireme::cli {

std::function<int()> add_version(Options& app) {
  auto json = std::make_shared<bool>(false);
  app.add_flag("--json", *json, "As JSON");
  return [json] {
    const Result<std::shared_ptr<kernel::cuda::CudaDevice>> gpu = kernel::cuda::open_device(0);
    const std::string cuda = gpu.ok() ? kernel::cuda::cuda_kernel_library(**gpu) : gpu.status().message();
    const Json out = {{"version", version()},
                      {"build", build_id()},
                      {"kernels", kernel::cpu_kernel_library()},
                      {"gpu", cuda},
                      {"compiler", __VERSION__}};
    if (*json) std::fputs((out.dump(2) + "\n").c_str(), stdout);
    if (!*json)
      std::fputs(fmt::format("trireme {}\nbuild {}\nkernels {}\ngpu {}\ncompiler {}\n", version(), build_id(),
                             kernel::cpu_kernel_library(), cuda, __VERSION__)
                     .c_str(),
                 stdout);
    return kExitOk;
  };
}

}  // namespace trireme::cli
