// The functions of NCCL that we call, found when a communicator is wanted. Nothing is linked and no header is
// needed: types and numbers are NCCL's, which have not changed since 2.14.
#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <string>

#include "trireme/base/status.h"
#include "trireme/tensor/dtype.h"

namespace trireme::comm {

struct NcclComm;  // ncclComm

struct NcclId {
  std::array<char, 128> bytes{};
};

enum class NcclResult : int {
  kSuccess = 0,
  kCudaError = 1,
  kSystemError = 2,
  kInternalError = 3,
  kInvalidArgument = 4,
  kInvalidUsage = 5,
  kRemoteError = 6,
  kInProgress = 7,
};

// ncclConfig_t as of 2.14; newer libraries take what is missing as its default.
struct NcclConfig {
  std::size_t size = sizeof(NcclConfig);
  unsigned magic = 0xcafebeef;
  unsigned version = 21400;
  int blocking = 0;
};

struct NcclLibrary {
  NcclResult (*ncclGetVersion)(int* version) = nullptr;
  NcclResult (*ncclGetUniqueId)(NcclId* id) = nullptr;
  NcclResult (*ncclCommInitRankConfig)(NcclComm** comm, int world, NcclId id, int rank,
                                       NcclConfig* config) = nullptr;
  NcclResult (*ncclCommGetAsyncError)(NcclComm* comm, NcclResult* state) = nullptr;
  NcclResult (*ncclCommFinalize)(NcclComm* comm) = nullptr;
  NcclResult (*ncclCommDestroy)(NcclComm* comm) = nullptr;
  NcclResult (*ncclCommAbort)(NcclComm* comm) = nullptr;
  const char* (*ncclGetErrorString)(NcclResult result) = nullptr;
  const char* (*ncclGetLastError)(NcclComm* comm) = nullptr;
  NcclResult (*ncclAllReduce)(const void* in, void* out, std::size_t count, int dtype, int reduction,
                              NcclComm* comm, void* stream) = nullptr;
  NcclResult (*ncclReduceScatter)(const void* in, void* out, std::size_t count, int dtype, int reduction,
                                  NcclComm* comm, void* stream) = nullptr;
  NcclResult (*ncclAllGather)(const void* in, void* out, std::size_t count, int dtype, NcclComm* comm,
                              void* stream) = nullptr;
  NcclResult (*ncclBroadcast)(const void* in, void* out, std::size_t count, int dtype, int root,
                              NcclComm* comm, void* stream) = nullptr;
  NcclResult (*ncclSend)(const void* in, std::size_t count, int dtype, int peer, NcclComm* comm,
                         void* stream) = nullptr;
  NcclResult (*ncclRecv)(void* out, std::size_t count, int dtype, int peer, NcclComm* comm,
                         void* stream) = nullptr;
  NcclResult (*ncclGroupStart)() = nullptr;
  NcclResult (*ncclGroupEnd)() = nullptr;

  int version = 0;  // 22800 is 2.28.0

  // `file`: what dlopen takes. kUnavailable names the file, or the function that it lacks, or its version.
  static Result<std::shared_ptr<const NcclLibrary>> load(const std::string& file = "libnccl.so.2");
  // "[nccl] what: reason"; `comm` may be null.
  Status failure(NcclResult result, NcclComm* comm, const std::string& what) const;
};

// ncclDataType_t; kInvalid: NCCL has no such type.
Result<int> nccl_dtype(DType dtype);

}  // namespace trireme::comm
