#include "trireme/comm/nccl/library.h"

#include <dlfcn.h>

namespace trireme::comm {
namespace {

constexpr int kOldest = 21400;  // communicators that do not block

template <typename F>
Status find(void* library, const std::string& file, const char* name, F& to) {
  to = reinterpret_cast<F>(dlsym(library, name));
  if (to != nullptr) return {};
  return error(Code::kUnavailable, "[nccl] {} has no function {}; NCCL 2.14 or newer is expected", file,
               name);
}

Status find_all(void* library, const std::string& file, NcclLibrary& lib) {
#define TR_NCCL_FIND(name) TR_RETURN_IF_ERROR(find(library, file, #name, lib.name));
  TR_NCCL_FIND(ncclGetVersion)
  TR_NCCL_FIND(ncclGetUniqueId)
  TR_NCCL_FIND(ncclCommInitRankConfig)
  TR_NCCL_FIND(ncclCommGetAsyncError)
  TR_NCCL_FIND(ncclCommFinalize)
  TR_NCCL_FIND(ncclCommDestroy)
  TR_NCCL_FIND(ncclCommAbort)
  TR_NCCL_FIND(ncclGetErrorString)
  TR_NCCL_FIND(ncclGetLastError)
  TR_NCCL_FIND(ncclAllReduce)
  TR_NCCL_FIND(ncclReduceScatter)
  TR_NCCL_FIND(ncclAllGather)
  TR_NCCL_FIND(ncclBroadcast)
  TR_NCCL_FIND(ncclSend)
  TR_NCCL_FIND(ncclRecv)
  TR_NCCL_FIND(ncclGroupStart)
  TR_NCCL_FIND(ncclGroupEnd)
#undef TR_NCCL_FIND
  return {};
}

}  // namespace

// The library stays loaded: it keeps threads of its own.
Result<std::shared_ptr<const NcclLibrary>> NcclLibrary::load(const std::string& file) {
  void* const library = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const char* reason = dlerror();
    return error(Code::kUnavailable,
                 "[nccl] {} cannot be loaded: {}; install NCCL 2, or set "
                 "parallel.device_collectives=staged",
                 file, reason != nullptr ? reason : "unknown");
  }
  auto lib = std::make_shared<NcclLibrary>();
  TR_RETURN_IF_ERROR(find_all(library, file, *lib));
  const NcclResult asked = lib->ncclGetVersion(&lib->version);
  if (asked != NcclResult::kSuccess || lib->version < kOldest)
    return error(Code::kUnavailable, "[nccl] {} is of version {}, expected {} (2.14) or newer", file,
                 lib->version, kOldest);
  return std::shared_ptr<const NcclLibrary>(std::move(lib));
}

Status NcclLibrary::failure(NcclResult result, NcclComm* comm, const std::string& what) const {
  const char* reason = ncclGetErrorString(result);
  const char* detail = comm != nullptr ? ncclGetLastError(comm) : nullptr;
  const bool more = detail != nullptr && *detail != '\0';
  const Code code = result == NcclResult::kRemoteError ? Code::kPeerLost : Code::kInternal;
  return error(code, "[nccl] {}: {}{}{}", what, reason != nullptr ? reason : "unknown", more ? ": " : "",
               more ? detail : "");
}

Result<int> nccl_dtype(DType dtype) {
  switch (dtype) {
    case DType::kF64:
      return 8;
    case DType::kF32:
      return 7;
    case DType::kBF16:
      return 9;
    case DType::kF16:
      return 6;
    case DType::kI64:
      return 4;
    case DType::kI32:
      return 2;
    case DType::kU8:
    case DType::kBool:
      return 1;
  }
  return error(Code::kInvalid, "[nccl] dtype {} has no counterpart", static_cast<int>(dtype));
}

}  // namespace trireme::comm
