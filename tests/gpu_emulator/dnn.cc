// A cuDNN without engines: every plan is refused, so that what has a kernel of its own uses that.
#include <cudnn.h>

#include <cstring>

std::size_t cudnnGetVersion() { return 0; }  // older than what any use asks for
const char* cudnnGetErrorString(cudnnStatus_t) { return "CUDNN_STATUS_NOT_SUPPORTED"; }
void cudnnGetLastErrorString(char* text, std::size_t size) {
  std::strncpy(text, "the GPU emulator has no cuDNN", size - 1);
  text[size - 1] = '\0';
}
cudnnStatus_t cudnnCreate(cudnnHandle_t* handle) {
  *handle = nullptr;
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnDestroy(cudnnHandle_t) { return CUDNN_STATUS_SUCCESS; }
cudnnStatus_t cudnnSetStream(cudnnHandle_t, cudaStream_t) { return CUDNN_STATUS_SUCCESS; }

// Looked up by name and never called with success; their parameters do not matter.
#define REFUSED(name)                                                                    \
  extern "C" __attribute__((visibility("default"))) int refused_##name() __asm__(#name); \
  extern "C" int refused_##name() { return CUDNN_STATUS_NOT_SUPPORTED; }
REFUSED(cudnnBackendCreateDescriptor)
REFUSED(cudnnBackendDestroyDescriptor)
REFUSED(cudnnBackendSetAttribute)
REFUSED(cudnnBackendGetAttribute)
REFUSED(cudnnBackendFinalize)
REFUSED(cudnnBackendExecute)
REFUSED(cudnnCreateRNNDescriptor)
REFUSED(cudnnDestroyRNNDescriptor)
REFUSED(cudnnSetRNNDescriptor_v8)
REFUSED(cudnnCreateRNNDataDescriptor)
REFUSED(cudnnDestroyRNNDataDescriptor)
REFUSED(cudnnSetRNNDataDescriptor)
REFUSED(cudnnGetRNNTempSpaceSizes)
REFUSED(cudnnGetRNNWeightSpaceSize)
REFUSED(cudnnGetRNNWeightParams)
REFUSED(cudnnRNNForward)
REFUSED(cudnnRNNBackwardData_v8)
REFUSED(cudnnRNNBackwardWeights_v8)
REFUSED(cudnnCreateTensorDescriptor)
REFUSED(cudnnDestroyTensorDescriptor)
REFUSED(cudnnSetTensorNdDescriptor)
REFUSED(cudnnGetTensorNdDescriptor)
REFUSED(cudnnCreateDropoutDescriptor)
REFUSED(cudnnDestroyDropoutDescriptor)
REFUSED(cudnnSetDropoutDescriptor)
