// Compiled texts of a CudaDevice, by text and entry. Internal to device.cc and modules.cc.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "trireme/kernel/cuda/device.h"

namespace trireme::kernel::cuda {

struct CudaDevice::Modules {
  std::mutex mutex;
  std::map<std::pair<std::string, std::string>, Function> functions;  // by (text, entry); addresses stay
  std::vector<CUmodule> loaded;

  void unload(const Libraries& lib) {
    for (CUmodule m : loaded) lib.cuModuleUnload(m);
  }
};

}  // namespace trireme::kernel::cuda
