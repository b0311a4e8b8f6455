// Modules and launches. A "cubin" is what nvrtc.cc made: "GPUEMU01", the length in 8 bytes, a shared library.
#include <cuda.h>
#include <dlfcn.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "tests/gpu_emulator/block.h"
#include "tests/gpu_emulator/streams.h"

struct CUfunc_st {
  gpu_emulator::Kernel kernel;
  std::vector<std::size_t> sizes;  // of its parameters
  std::size_t most_shared_bytes = std::size_t{48} << 10U;
};
struct CUmod_st {
  void* library = nullptr;
  bool has_barriers = false;
  std::vector<std::unique_ptr<CUfunc_st>> functions;
};

namespace {

constexpr std::string_view kMagic = "GPUEMU01";
#define GPU_EMULATOR_LOCKED const std::lock_guard hold(gpu_emulator::lock())

// Parameters of one launch, copied: a graph replays them.
struct Arguments {
  std::vector<std::string> values;
  std::vector<void*> pointers;

  Arguments(const std::vector<std::size_t>& sizes, void** from) {
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      values.emplace_back(sizes[i] + 64, '\0');
      const auto at = (reinterpret_cast<std::uintptr_t>(values.back().data()) + 63) / 64 * 64;
      std::memcpy(reinterpret_cast<void*>(at), from[i], sizes[i]);
    }
    for (std::string& v : values)
      pointers.push_back(
          reinterpret_cast<void*>((reinterpret_cast<std::uintptr_t>(v.data()) + 63) / 64 * 64));
  }
};

}  // namespace

CUresult cuModuleLoadData(CUmodule* module, const void* image) {
  const auto* bytes = static_cast<const char*>(image);
  if (std::string_view(bytes, kMagic.size()) != kMagic) return CUDA_ERROR_INVALID_IMAGE;
  std::uint64_t size = 0;
  std::memcpy(&size, bytes + kMagic.size(), sizeof size);
  const std::string_view library(bytes + kMagic.size() + sizeof size, size);
  std::string path = "/tmp/gpu-emulator-XXXXXX";  // the loader takes the same path for the same library
  const int file = mkstemp(path.data());
  if (file < 0) return CUDA_ERROR_OUT_OF_MEMORY;
  auto made = std::make_unique<CUmod_st>();
  if (write(file, library.data(), size) == static_cast<ssize_t>(size))
    made->library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (made->library == nullptr) std::fprintf(stderr, "gpu_emulator: %s\n", dlerror());
  close(file);
  unlink(path.c_str());
  if (made->library == nullptr) return CUDA_ERROR_INVALID_IMAGE;
  made->has_barriers = library.find("emulated_barrier") != std::string_view::npos ||
                       library.find("emulated_exchange") != std::string_view::npos ||
                       library.find("emulated_ballot") != std::string_view::npos;
  *module = made.release();
  return CUDA_SUCCESS;
}

CUresult cuModuleUnload(CUmodule module) {
  GPU_EMULATOR_LOCKED;
  gpu_emulator::run_everything();
  dlclose(module->library);
  delete module;
  return CUDA_SUCCESS;
}

CUresult cuModuleGetFunction(CUfunction* function, CUmodule module, const char* name) {
  auto made = std::make_unique<CUfunc_st>();
  const auto find = [&](const char* prefix) {
    return dlsym(module->library, (std::string(prefix) + name).c_str());
  };
  made->kernel.call = reinterpret_cast<void (*)(void**)>(find("emulated_call_"));
  const auto* sizes = static_cast<const std::size_t*>(find("emulated_sizes_"));  // their number comes first
  if (made->kernel.call == nullptr || sizes == nullptr) return CUDA_ERROR_NOT_FOUND;
  made->sizes.assign(sizes + 1, sizes + 1 + sizes[0]);
  made->kernel.has_barriers = module->has_barriers;
  made->kernel.name = name;
  *function = module->functions.emplace_back(std::move(made)).get();
  return CUDA_SUCCESS;
}

CUresult cuFuncSetAttribute(CUfunction function, CUfunction_attribute what, int value) {
  if (what == CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES)
    function->most_shared_bytes = static_cast<std::size_t>(value);
  return CUDA_SUCCESS;
}

CUresult cuFuncGetAttribute(int* value, CUfunction_attribute what, CUfunction function) {
  *value = what == CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK ? 1024
           : what == CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
               ? static_cast<int>(function->most_shared_bytes)
               : 0;
  return CUDA_SUCCESS;
}

CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, CUfunction, int, std::size_t) {
  *blocks = 2;
  return CUDA_SUCCESS;
}

CUresult cuLaunchKernel(CUfunction f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
                        unsigned bz, unsigned shared_bytes, CUstream stream, void** parameters, void**) {
  constexpr unsigned kMostBlocks = 65535, kMostThreads = 1024;
  if (gx == 0 || gy == 0 || gz == 0 || bx == 0 || by == 0 || bz == 0 || gx > 0x7FFFFFFFU ||
      gy > kMostBlocks || gz > kMostBlocks || bz > 64 || std::uint64_t{bx} * by * bz > kMostThreads ||
      shared_bytes > f->most_shared_bytes)
    return CUDA_ERROR_INVALID_VALUE;
  GPU_EMULATOR_LOCKED;
  auto args = std::make_shared<Arguments>(f->sizes, parameters);
  gpu_emulator::enqueue(stream, [=] {
    gpu_emulator::run_grid(f->kernel, {gx, gy, gz}, {bx, by, bz}, args->pointers.data());
  });
  return CUDA_SUCCESS;
}
