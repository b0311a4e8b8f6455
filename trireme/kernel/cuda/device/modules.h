// Compiled texts of a CudaDevice and their entries. Internal to device.cc and modules.cc.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "trireme/kernel/cuda/device/device.h"

namespace trireme::kernel::cuda {

struct CudaDevice::Modules {
  std::mutex mutex;
  std::map<std::pair<std::string, std::string>, Function> functions;  // by (text, entry); addresses stay
  std::map<std::string, CUmodule> texts;                              // nullptr where nothing can be loaded

  void unload(const Libraries& lib) {
    for (const auto& [text, module] : texts) lib.cuModuleUnload(module);
  }
};

}  // namespace trireme::kernel::cuda
