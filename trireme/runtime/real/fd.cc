#include "trireme/runtime/real/fd.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

#include "trireme/base/units.h"

namespace trireme::runtime::real {

namespace {
constexpr int kFixedSize = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;
}  // namespace

void Fd::reset() {
  if (fd_ >= 0) ::close(std::exchange(fd_, -1));
}

Fd Fd::duplicate() const { return Fd(fcntl(fd_, F_DUPFD_CLOEXEC, 0)); }

Mapping::~Mapping() {
  if (data_ != nullptr) munmap(data_, size_);
}

Result<Mapping> Mapping::of(const Fd& fd, std::size_t bytes) {
  void* data = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd.get(), 0);
  if (data == MAP_FAILED)
    return system_error("network", fmt::format("map {} of shared memory", format_bytes(bytes)), errno);
  Mapping mapping;
  mapping.data_ = static_cast<std::byte*>(data);
  mapping.size_ = bytes;
  return mapping;
}

Result<Fd> make_memory_file(const std::string& name, std::size_t bytes) {
  const std::string action = fmt::format("create a shared segment '{}' of {}", name, format_bytes(bytes));
  Fd fd(memfd_create(name.substr(0, 200).c_str(), MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!fd || ftruncate(fd.get(), static_cast<off_t>(bytes)) != 0 ||
      fcntl(fd.get(), F_ADD_SEALS, kFixedSize) != 0)
    return system_error("network", action, errno);
  return fd;
}

Status check_memory_file(const Fd& fd, std::size_t bytes) {
  struct stat info {};
  if (fstat(fd.get(), &info) != 0) return system_error("network", "examine a received segment", errno);
  if (static_cast<std::size_t>(info.st_size) != bytes)
    return error(Code::kCorrupt, "[network] a received segment has the wrong size: got {} bytes, expected {}",
                 info.st_size, bytes);
  const int seals = fcntl(fd.get(), F_GET_SEALS);
  if (seals < 0 || (seals & kFixedSize) != kFixedSize)
    return error(Code::kCorrupt, "[network] a received segment may change its size: its seals are missing");
  return {};
}

Code code_of_errno(int error_number) {
  switch (error_number) {
    case ENOENT:
    case ENOTDIR:
      return Code::kNotFound;
    case EEXIST:
    case EADDRINUSE:
      return Code::kExists;
    case ENOSPC:
    case EDQUOT:
    case EFBIG:
    case ENOMEM:
    case EMFILE:
    case ENFILE:
      return Code::kExhausted;
    case EINVAL:
    case ENAMETOOLONG:
    case EISDIR:
      return Code::kInvalid;
    case EPIPE:
    case ECONNRESET:
      return Code::kPeerLost;
    case ETIMEDOUT:
      return Code::kDeadline;
    default:
      return Code::kUnavailable;
  }
}

std::string text_of_errno(int error_number) { return std::generic_category().message(error_number); }

Status system_error(std::string_view area, std::string_view action, int error_number) {
  return error(code_of_errno(error_number), "[{}] cannot {}: {}{}", area, action, text_of_errno(error_number),
               error_number == EMFILE ? open_files_hint() : "");
}

std::string open_files_hint() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return "";
  return fmt::format("; this process may open {} files (ulimit -n); raise the limit", limit.rlim_cur);
}

}  // namespace trireme::runtime::real
