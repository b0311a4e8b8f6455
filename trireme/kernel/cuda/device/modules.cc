#include "trireme/kernel/cuda/device/modules.h"

#include <fmt/format.h>

#include <array>

#include "trireme/base/hash.h"
#include "trireme/kernel/compiled_texts.h"

namespace trireme::kernel::cuda {

extern const char kPreludeText[];  // prelude.cu

namespace {

constexpr const char *kLanguage = "--std=c++17", *kHostless = "-default-device";

// NVRTC's program, destroyed with its scope.
struct Program {
  const Libraries& lib;
  nvrtcProgram raw = nullptr;
  ~Program() {
    if (raw != nullptr) lib.nvrtcDestroyProgram(&raw);
  }
};

std::string log_of(const Program& p) {
  std::size_t size = 0;
  if (p.lib.nvrtcGetProgramLogSize(p.raw, &size) != NVRTC_SUCCESS || size < 2) return {};
  std::string log(size, '\0');
  p.lib.nvrtcGetProgramLog(p.raw, log.data());
  log.resize(size - 1);
  return log;
}

// What decides a cubin: the text, the GPU it is for, the compiler and its options.
std::string key_of(const CudaDevice& device, const std::string& text) {
  const DeviceFacts& facts = device.facts();
  int major = 0, minor = 0;
  device.lib().nvrtcVersion(&major, &minor);
  return sha256_hex(
      as_bytes(fmt::format("{} sm_{}{} nvrtc {}.{} {} {}\n{}{}", facts.name, facts.major, facts.minor, major,
                           minor, kLanguage, kHostless, kPreludeText, text)));
}

}  // namespace

// -fmad=false is not set: kernels that must round like the host say so with __fmul_rn and the like.
Result<std::string> CudaDevice::compile(const std::string& text, const std::string& name) const {
  Program p{*lib_};
  const std::string whole = kPreludeText + text;
  TR_RETURN_IF_ERROR(lib_->check(
      lib_->nvrtcCreateProgram(&p.raw, whole.c_str(), (name + ".cu").c_str(), 0, nullptr, nullptr),
      "reading a kernel's text"));
  // Where nothing can be loaded the text is only checked, and machine code would take most of the time.
  const std::string arch = fmt::format("--gpu-architecture={}_{}{}", only_compiles() ? "compute" : "sm",
                                       facts_.major, facts_.minor);
  const std::array<const char*, 3> options{arch.c_str(), kLanguage, kHostless};
  const nvrtcResult compiled =
      lib_->nvrtcCompileProgram(p.raw, static_cast<int>(options.size()), options.data());
  if (compiled != NVRTC_SUCCESS)
    return error(Code::kInternal, "[cuda] kernel {} does not compile for {}: {}", name, arch, log_of(p));
  if (only_compiles()) return std::string();
  std::size_t size = 0;
  TR_RETURN_IF_ERROR(lib_->check(lib_->nvrtcGetCUBINSize(p.raw, &size), "compiling a kernel"));
  std::string cubin(size, '\0');
  TR_RETURN_IF_ERROR(lib_->check(lib_->nvrtcGetCUBIN(p.raw, cubin.data()), "compiling a kernel"));
  return cubin;
}

// The module of a text, compiled for its first entry and kept for the others; `modules_->mutex` is held.
Result<CUmodule> CudaDevice::module_of(const std::string& text, const std::string& name) {
  if (const auto at = modules_->texts.find(text); at != modules_->texts.end()) return at->second;
  CUmodule module = nullptr;
  if (only_compiles()) {
    TR_RETURN_IF_ERROR(compile(text, name).status());
  } else {
    enter();
    const auto load = [&](const std::string& cubin) {
      return lib_->check(lib_->cuModuleLoadData(&module, cubin.data()), "loading a kernel");
    };
    const std::string kept = key_of(*this, text);
    const std::optional<std::string> known = compiled_texts().find(kept);
    if (!known || !load(*known).ok()) {
      TR_ASSIGN_OR_RETURN(std::string cubin, compile(text, name));
      TR_RETURN_IF_ERROR(load(cubin));
      compiled_texts().add(kept, std::move(cubin));
    }
  }
  return modules_->texts.emplace(text, module).first->second;
}

Result<const Function*> CudaDevice::function(const std::string& source, const std::string& name) {
  const std::lock_guard lock(modules_->mutex);
  const std::pair key(source, name);
  if (const auto at = modules_->functions.find(key); at != modules_->functions.end()) return &at->second;
  TR_ASSIGN_OR_RETURN(CUmodule module, module_of(source, name));
  Function f{nullptr, name};
  if (module != nullptr) {
    TR_RETURN_IF_ERROR(
        lib_->check(lib_->cuModuleGetFunction(&f.handle, module, name.c_str()), "finding a kernel"));
    // Every function may use what a block can get: launches that ask for more than 48 KiB need this.
    (void)lib_->cuFuncSetAttribute(f.handle, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                                   static_cast<int>(facts_.shared_bytes_per_block) - 1024 * 16);
  }
  return &modules_->functions.emplace(key, std::move(f)).first->second;
}

}  // namespace trireme::kernel::cuda
