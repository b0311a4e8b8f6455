#include "trireme/kernel/cuda/device/libraries.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <initializer_list>

namespace trireme::kernel::cuda {
namespace {

#define TR_CUDA_TEXT(name) TR_CUDA_TEXT_OF(name)
#define TR_CUDA_TEXT_OF(name) #name

// The first of these files that loads. They stay loaded: libraries keep threads and state of their own.
Result<void*> open_library(std::initializer_list<const char*> names, const char* what) {
  std::string reasons;
  for (const char* name : names) {
    if (void* handle = dlopen(name, RTLD_NOW | RTLD_LOCAL)) return handle;
    const char* reason = dlerror();
    reasons += fmt::format("{}{}", reasons.empty() ? "" : "; ", reason != nullptr ? reason : name);
  }
  return error(Code::kUnavailable, "[cuda] {} cannot be loaded: {}; install it, or train with --device cpu",
               what, reasons);
}

template <typename F>
Status find(void* library, const char* name, F& to) {
  to = reinterpret_cast<F>(dlsym(library, name));
  if (to != nullptr) return {};
  return error(Code::kUnavailable,
               "[cuda] the installed libraries have no function {}; CUDA 13 and cuDNN 9 are expected", name);
}

#define TR_CUDA_FIND(name) TR_RETURN_IF_ERROR(find(library, TR_CUDA_TEXT(name), lib.name));

Status find_driver(Libraries& lib) {
  TR_ASSIGN_OR_RETURN(void* const library, open_library({"libcuda.so.1"}, "the NVIDIA driver"));
  TR_CUDA_DRIVER(TR_CUDA_FIND)
  return {};
}

Status find_nvrtc(Libraries& lib) {
  TR_ASSIGN_OR_RETURN(
      void* const library,
      open_library({"libnvrtc.so.13", "/usr/local/cuda/lib64/libnvrtc.so.13"}, "CUDA's run-time compiler"));
  TR_CUDA_NVRTC(TR_CUDA_FIND)
  return {};
}

Status find_blas(Libraries& lib) {
  TR_ASSIGN_OR_RETURN(
      void* const library,
      open_library({"libcublasLt.so.13", "/usr/local/cuda/lib64/libcublasLt.so.13"}, "cuBLASLt"));
  TR_CUDA_BLAS(TR_CUDA_FIND)
  return {};
}

Status find_dnn(Libraries& lib) {
  TR_ASSIGN_OR_RETURN(void* const library,
                      open_library({"libcudnn.so.9", "/usr/local/cuda/lib64/libcudnn.so.9"}, "cuDNN 9"));
  TR_CUDA_DNN(TR_CUDA_FIND)
  return {};
}

}  // namespace

Result<std::shared_ptr<const Libraries>> Libraries::load() {
  auto lib = std::make_shared<Libraries>();
  TR_RETURN_IF_ERROR(find_driver(*lib));
  TR_RETURN_IF_ERROR(find_nvrtc(*lib));
  TR_RETURN_IF_ERROR(find_blas(*lib));
  TR_RETURN_IF_ERROR(find_dnn(*lib));
  return std::shared_ptr<const Libraries>(std::move(lib));
}

Result<std::shared_ptr<const Libraries>> Libraries::load_compiler() {
  auto lib = std::make_shared<Libraries>();
  TR_RETURN_IF_ERROR(find_nvrtc(*lib));
  return std::shared_ptr<const Libraries>(std::move(lib));
}

Status Libraries::check(CUresult result, const char* what) const {
  if (result == CUDA_SUCCESS) return {};
  const char* reason = nullptr;
  cuGetErrorString(result, &reason);
  const Code code = result == CUDA_ERROR_OUT_OF_MEMORY ? Code::kExhausted : Code::kInternal;
  return error(code, "[cuda] {}: {} (error {})", what, reason != nullptr ? reason : "unknown",
               static_cast<int>(result));
}

Status Libraries::check(nvrtcResult result, const char* what) const {
  if (result == NVRTC_SUCCESS) return {};
  return error(Code::kInternal, "[cuda] {}: {}", what, nvrtcGetErrorString(result));
}

Status Libraries::check(cublasStatus_t result, const char* what) const {
  if (result == CUBLAS_STATUS_SUCCESS) return {};
  return error(Code::kInternal, "[cuda] {}: cuBLASLt status {}", what, static_cast<int>(result));
}

Status Libraries::check(cudnnStatus_t result, const char* what) const {
  if (result == CUDNN_STATUS_SUCCESS) return {};
  char detail[512] = "";
  cudnnGetLastErrorString(detail, sizeof detail);
  return error(Code::kInternal, "[cuda] {}: {} {}", what, cudnnGetErrorString(result), detail);
}

}  // namespace trireme::kernel::cuda
