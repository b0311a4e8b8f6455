#include "trireme/runtime/real/real_files.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <functional>
#include <optional>
#include <system_error>

#include "trireme/runtime/real/fd.h"

namespace trireme::runtime::real {
namespace {

Status failed(std::string_view verb, const std::string& path, int error_number) {
  return system_error("files", fmt::format("{} '{}'", verb, path), error_number);
}

int open_retrying(const std::string& path, int flags) {
  int fd = -1;
  do {
    fd = ::open(path.c_str(), flags | O_CLOEXEC, 0644);
  } while (fd < 0 && errno == EINTR);
  return fd;
}

Result<Bytes> read_file(const std::string& path) {
  const Fd fd(open_retrying(path, O_RDONLY));
  struct stat info {};
  if (!fd || fstat(fd.get(), &info) != 0) return failed("read", path, errno);
  // The size is a hint only: files in /proc say 0, and others may grow meanwhile.
  Bytes bytes(static_cast<std::size_t>(std::max<off_t>(info.st_size, 0)) + 1);
  std::size_t used = 0;
  for (;;) {
    if (used == bytes.size()) bytes.resize(bytes.size() * 2);
    const ssize_t got = ::read(fd.get(), bytes.data() + used, bytes.size() - used);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return failed("read", path, errno);
    if (got == 0) break;
    used += static_cast<std::size_t>(got);
  }
  bytes.resize(used);
  return bytes;
}

Status write_file(const std::string& path, ByteView bytes, int flags, std::string_view verb) {
  Fd fd(open_retrying(path, O_WRONLY | O_CREAT | flags));
  if (!fd) return failed(verb, path, errno);
  while (!bytes.empty()) {
    const ssize_t put = ::write(fd.get(), bytes.data(), bytes.size());
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) return failed(verb, path, errno);
    bytes = bytes.subspan(static_cast<std::size_t>(put));
  }
  return {};
}

Status sync_path(const std::string& path) {
  const Fd fd(open_retrying(path, O_RDONLY));
  if (!fd || fsync(fd.get()) != 0) return failed("sync", path, errno);
  return {};
}

Result<std::vector<std::string>> list_directory(const std::string& path) {
  DIR* directory = opendir(path.c_str());
  if (directory == nullptr) return failed("list", path, errno);
  std::vector<std::string> names;
  int error_number = 0;
  for (;;) {
    errno = 0;  // readdir tells its end from a failure by errno alone
    const dirent* entry = readdir(directory);
    error_number = errno;
    if (entry == nullptr) break;
    const std::string_view name = entry->d_name;
    if (name != "." && name != "..") names.emplace_back(name);
  }
  closedir(directory);
  if (error_number != 0) return failed("list", path, error_number);
  std::sort(names.begin(), names.end());
  return names;
}

Result<bool> path_exists(const std::string& path) {
  struct stat info {};
  if (stat(path.c_str(), &info) == 0) return true;
  if (errno == ENOENT || errno == ENOTDIR) return false;
  return failed("examine", path, errno);
}

Status remove_tree(const std::string& path) {
  std::error_code failure;
  std::filesystem::remove_all(path, failure);
  return failure ? failed("remove", path, failure.value()) : Status();
}

Status make_directories(const std::string& path) {
  std::error_code failure;
  std::filesystem::create_directories(path, failure);
  return failure ? failed("create directory", path, failure.value()) : Status();
}

Result<FileView> map_file(const std::string& path) {
  const Fd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  struct stat info {};
  if (!fd || fstat(fd.get(), &info) != 0) return failed("map", path, errno);
  if (!S_ISREG(info.st_mode)) return failed("map", path, S_ISDIR(info.st_mode) ? EISDIR : EINVAL);
  const auto size = static_cast<std::size_t>(info.st_size);
  if (size == 0) return view_of({});
  void* at = ::mmap(nullptr, size, PROT_READ, MAP_SHARED, fd.get(), 0);
  if (at == MAP_FAILED) return failed("map", path, errno);
  const auto unmap = [size](void* p) { ::munmap(p, size); };
  return FileView{{static_cast<const std::byte*>(at), size}, std::shared_ptr<void>(at, unmap)};
}

class RealFiles final : public Files {
 public:
  RealFiles(Runtime& rt, IoThread& io) : rt_(rt), io_(io) {}

  Task<Result<Bytes>> read(std::string path) override {
    return run<Result<Bytes>>("read", path, [path] { return read_file(path); });
  }
  Task<Result<FileView>> map(std::string path) override {
    return run<Result<FileView>>("map", path, [path] { return map_file(path); });
  }
  Task<Status> write(std::string path, ByteView bytes) override {
    return run<Status>("write", path, [path, bytes] { return write_file(path, bytes, O_TRUNC, "write"); });
  }
  Task<Status> append(std::string path, ByteView bytes) override {
    return run<Status>("append to", path,
                       [path, bytes] { return write_file(path, bytes, O_APPEND, "append to"); });
  }
  Task<Status> sync(std::string path) override {
    return run<Status>("sync", path, [path] { return sync_path(path); });
  }
  Task<Status> rename(std::string from, std::string to) override {
    return run<Status>("rename", from, [from, to] {
      if (::rename(from.c_str(), to.c_str()) == 0) return Status();
      return system_error("files", fmt::format("rename '{}' to '{}'", from, to), errno);
    });
  }
  Task<Status> remove_all(std::string path) override {
    return run<Status>("remove", path, [path] { return remove_tree(path); });
  }
  Task<Status> make_dirs(std::string path) override {
    return run<Status>("create directory", path, [path] { return make_directories(path); });
  }
  Task<Result<std::vector<std::string>>> list(std::string path) override {
    return run<Result<std::vector<std::string>>>("list", path, [path] { return list_directory(path); });
  }
  Task<Result<bool>> exists(std::string path) override {
    return run<Result<bool>>("examine", path, [path] { return path_exists(path); });
  }
  std::string absolute(std::string path) const override {
    std::error_code unknown;  // the working directory may be gone
    const std::filesystem::path whole = std::filesystem::absolute(path, unknown);
    return unknown ? path : whole.lexically_normal().string();
  }

 private:
  template <typename R>
  Task<R> run(std::string_view verb, std::string path, std::function<R()> work) {
    if (rt_.fault_point("disk", next_operation_++) == FaultAction::kError)
      co_return error(Code::kExhausted, "[files] cannot {} '{}': {} (injected)", verb, path,
                      text_of_errno(ENOSPC));
    std::optional<R> result;
    co_await io_.run([&result, &work] { result.emplace(work()); });
    co_return std::move(*result);
  }

  Runtime& rt_;
  IoThread& io_;
  std::uint64_t next_operation_ = 0;
};

}  // namespace

std::unique_ptr<Files> make_real_files(Runtime& rt, IoThread& io) {
  return std::make_unique<RealFiles>(rt, io);
}

}  // namespace trireme::runtime::real
