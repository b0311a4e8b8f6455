#include "trireme/runtime/real/segment.h"

namespace trireme::runtime::real {

Result<std::unique_ptr<SharedSegment>> MemorySegment::make(const std::string& name, std::size_t bytes) {
  if (bytes == 0)
    return error(Code::kInvalid, "[network] segment '{}' is empty: a segment has at least one byte", name);
  TR_ASSIGN_OR_RETURN(Fd fd, make_memory_file(name, bytes));
  return from_fd(std::move(fd), bytes);
}

Result<std::unique_ptr<SharedSegment>> MemorySegment::from_fd(Fd fd, std::size_t bytes) {
  TR_RETURN_IF_ERROR(check_memory_file(fd, bytes));
  TR_ASSIGN_OR_RETURN(Mapping mapping, Mapping::of(fd, bytes));
  return std::unique_ptr<SharedSegment>(new MemorySegment(std::move(fd), std::move(mapping)));
}

}  // namespace trireme::runtime::real
