#include "trireme/runtime/real/module.h"

#include <dlfcn.h>

namespace trireme::runtime {

// Global symbols: MPI loads modules of its own, which expect to find it among them.
Result<Module> Module::open(const std::string& path) {
  void* handle = dlopen(path.c_str(), RTLD_NOW | RTLD_GLOBAL | RTLD_NODELETE);
  if (handle != nullptr) return Module(handle);
  const char* reason = dlerror();
  return error(Code::kUnavailable, "[runtime] cannot load '{}': {}", path,
               reason != nullptr ? reason : "the loader does not say why");
}

void* Module::symbol(const char* name) const { return dlsym(handle_, name); }

}  // namespace trireme::runtime
