// The functions of the driver, NVRTC, cuBLASLt and cuDNN that we call, found when a device is opened. Nothing
// is linked: one binary runs where they are and where they are not.
#pragma once

#include <cublasLt.h>
#include <cuda.h>
#include <cudnn.h>
#include <nvrtc.h>

#include <memory>
#include <string>

#include "trireme/base/status.h"

namespace trireme::kernel::cuda {

// name -> member of the same name. The driver's entry points with a version suffix are what cuda.h maps names
// to.
// clang-format off
#define TR_CUDA_DRIVER(X) \
  X(cuInit) X(cuDriverGetVersion) X(cuDeviceGet) X(cuDeviceGetCount) X(cuDeviceGetName) \
  X(cuDeviceTotalMem) X(cuDeviceGetAttribute) X(cuDevicePrimaryCtxRetain) X(cuDevicePrimaryCtxRelease) \
  X(cuCtxSetCurrent) X(cuCtxSynchronize) X(cuMemGetInfo) X(cuMemAlloc) X(cuMemFree) X(cuMemHostAlloc) \
  X(cuMemFreeHost) X(cuMemcpyAsync) X(cuMemcpy2DAsync) X(cuMemcpy) X(cuMemsetD8Async) \
  X(cuMemsetD16Async) X(cuMemsetD32Async) X(cuStreamCreate) X(cuStreamDestroy) \
  X(cuStreamSynchronize) X(cuStreamWaitEvent) X(cuStreamBeginCapture) X(cuStreamEndCapture) \
  X(cuGraphGetNodes) \
  X(cuEventCreate) X(cuEventDestroy) X(cuEventRecord) X(cuEventQuery) X(cuEventSynchronize) \
  X(cuEventElapsedTime) X(cuGraphInstantiateWithFlags) X(cuGraphLaunch) X(cuGraphDestroy) \
  X(cuGraphExecDestroy) X(cuModuleLoadData) X(cuModuleUnload) X(cuModuleGetFunction) \
  X(cuFuncSetAttribute) X(cuLaunchKernel) X(cuGetErrorString) X(cuIpcGetMemHandle) X(cuIpcOpenMemHandle) \
  X(cuIpcCloseMemHandle)
#define TR_CUDA_NVRTC(X) \
  X(nvrtcVersion) X(nvrtcCreateProgram) X(nvrtcCompileProgram) X(nvrtcGetProgramLogSize) \
  X(nvrtcGetProgramLog) X(nvrtcGetCUBINSize) X(nvrtcGetCUBIN) X(nvrtcDestroyProgram) \
  X(nvrtcGetErrorString)
#define TR_CUDA_BLAS(X) \
  X(cublasLtGetVersion) X(cublasLtCreate) X(cublasLtDestroy) X(cublasLtMatmul) \
  X(cublasLtMatmulDescCreate) X(cublasLtMatmulDescDestroy) X(cublasLtMatmulDescSetAttribute) \
  X(cublasLtMatrixLayoutCreate) X(cublasLtMatrixLayoutDestroy) X(cublasLtMatrixLayoutSetAttribute) \
  X(cublasLtMatmulPreferenceCreate) X(cublasLtMatmulPreferenceDestroy) \
  X(cublasLtMatmulPreferenceSetAttribute) X(cublasLtMatmulAlgoGetHeuristic) \
  X(cublasLtMatmulAlgoConfigGetAttribute) X(cublasLtMatmulAlgoCheck)
#define TR_CUDA_DNN(X) \
  X(cudnnGetVersion) X(cudnnGetErrorString) X(cudnnGetLastErrorString) X(cudnnCreate) X(cudnnDestroy) \
  X(cudnnSetStream) X(cudnnBackendCreateDescriptor) X(cudnnBackendDestroyDescriptor) \
  X(cudnnBackendSetAttribute) X(cudnnBackendGetAttribute) X(cudnnBackendFinalize) X(cudnnBackendExecute) \
  X(cudnnCreateRNNDescriptor) X(cudnnDestroyRNNDescriptor) X(cudnnSetRNNDescriptor_v8) \
  X(cudnnCreateRNNDataDescriptor) X(cudnnDestroyRNNDataDescriptor) X(cudnnSetRNNDataDescriptor) \
  X(cudnnGetRNNTempSpaceSizes) X(cudnnGetRNNWeightSpaceSize) X(cudnnGetRNNWeightParams) \
  X(cudnnRNNForward) X(cudnnRNNBackwardData_v8) X(cudnnRNNBackwardWeights_v8) \
  X(cudnnCreateTensorDescriptor) X(cudnnDestroyTensorDescriptor) X(cudnnSetTensorNdDescriptor) \
  X(cudnnGetTensorNdDescriptor) X(cudnnCreateDropoutDescriptor) X(cudnnDestroyDropoutDescriptor) \
  X(cudnnSetDropoutDescriptor)
// clang-format on

struct Libraries {
#define TR_CUDA_MEMBER(name) decltype(&::name) name = nullptr;
  TR_CUDA_DRIVER(TR_CUDA_MEMBER)
  TR_CUDA_NVRTC(TR_CUDA_MEMBER)
  TR_CUDA_BLAS(TR_CUDA_MEMBER)
  TR_CUDA_DNN(TR_CUDA_MEMBER)
#undef TR_CUDA_MEMBER

  // kUnavailable names the library, or the function that it lacks.
  static Result<std::shared_ptr<const Libraries>> load();
  static Result<std::shared_ptr<const Libraries>> load_compiler();  // NVRTC alone

  Status check(CUresult result, const char* what) const;  // "[cuda] what: reason"
  Status check(nvrtcResult result, const char* what) const;
  Status check(cublasStatus_t result, const char* what) const;
  Status check(cudnnStatus_t result, const char* what) const;
};

}  // namespace trireme::kernel::cuda
