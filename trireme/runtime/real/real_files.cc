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

std::string directory_of(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  return slash == std::string::npos ? "." : slash == 0 ? "/" : path.substr(0, slash);
}

// What is at the end of the links that start at `path`; it need not exist. "": a descriptor of a process.
Result<std::string> end_of_links(const std::string& path) {
  constexpr int kMostLinks = 40;  // as the kernel has it
  std::string at = path;
  for (int i = 0; i < kMostLinks; ++i) {
    std::error_code failure;
    const std::filesystem::path target = std::filesystem::read_symlink(at, failure);
    if (failure) return at;  // no link, or nothing there
    const std::filesystem::path here = std::filesystem::canonical(directory_of(at), failure);
    if (failure) return failed("write", path, failure.value());
    if (here.native().starts_with("/proc/")) return std::string();
    at = target.is_absolute() ? target.native() : (here / target).native();
  }
  return failed("write", path, ELOOP);
}

// Locks belong to open file descriptions: two of one process exclude each other too, and the system drops one
// with its last descriptor.
struct flock whole_file() {
  struct flock range {};
  range.l_type = F_WRLCK;
  range.l_whence = SEEK_SET;
  return range;
}

bool knows_no_locks(int error_number) {
  return error_number == ENOLCK || error_number == ENOSYS || error_number == EOPNOTSUPP ||
         error_number == EINVAL;
}

bool is_file_at(const Fd& fd, const std::string& path) {
  struct stat open {
  }, named{};
  return fstat(fd.get(), &open) == 0 && stat(path.c_str(), &named) == 0 && open.st_ino == named.st_ino &&
         open.st_dev == named.st_dev;
}

class RealLock final : public FileLock {
 public:
  RealLock(Fd fd, std::string path) : fd_(std::move(fd)), path_(std::move(path)) {}
  // While it is still locked, so that nobody else's file goes.
  ~RealLock() override {
    if (is_file_at(fd_, path_)) ::unlink(path_.c_str());
  }

 private:
  const Fd fd_;
  const std::string path_;
};

std::string holder_at(const std::string& path) {
  const Result<Bytes> bytes = read_file(path);
  return bytes.ok() ? std::string(as_text(*bytes)) : "";
}

Result<LockAttempt> take_lock(const std::string& path, const std::string& who) {
  constexpr int kTries = 100;
  for (int i = 0; i < kTries; ++i) {
    Fd fd(open_retrying(path, O_RDWR | O_CREAT));
    if (!fd) return failed("lock", path, errno);
    struct flock range = whole_file();
    LockAttempt attempt;
    if (fcntl(fd.get(), F_OFD_SETLK, &range) != 0) {
      if (errno == EAGAIN || errno == EACCES) {
        attempt.holder = holder_at(path);
      } else if (knows_no_locks(errno)) {
        attempt.has_locks = false;
      } else {
        return failed("lock", path, errno);
      }
      return attempt;
    }
    if (!is_file_at(fd, path)) continue;  // its last holder has removed it meanwhile
    if (ftruncate(fd.get(), 0) != 0 ||
        ::pwrite(fd.get(), who.data(), who.size(), 0) != static_cast<ssize_t>(who.size()))
      return failed("write", path, errno);
    attempt.lock = std::make_unique<RealLock>(std::move(fd), path);
    return attempt;
  }
  return error(Code::kUnavailable, "[files] cannot lock '{}': somebody removes it again and again", path);
}

Result<std::optional<std::string>> find_holder(const std::string& path) {
  const Fd fd(open_retrying(path, O_RDONLY));
  if (!fd && errno == ENOENT) return std::optional<std::string>();
  if (!fd) return failed("look at the lock", path, errno);
  struct flock range = whole_file();
  if (fcntl(fd.get(), F_OFD_GETLK, &range) != 0)
    return error(Code::kUnavailable, "[files] cannot look at the lock '{}': {}", path, text_of_errno(errno));
  if (range.l_type == F_UNLCK) return std::optional<std::string>();
  return std::optional<std::string>(holder_at(path));
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
  Task<Result<LockAttempt>> try_lock(std::string path, std::string who) override {
    return run<Result<LockAttempt>>("lock", path, [path, who] { return take_lock(path, who); });
  }
  Task<Result<std::optional<std::string>>> lock_holder(std::string path) override {
    return run<Result<std::optional<std::string>>>("look at the lock", path,
                                                   [path] { return find_holder(path); });
  }

 protected:
  // No disk operation of its own: faults are injected by number.
  Task<Result<Output>> find_output(std::string path) override {
    std::optional<Result<Output>> found;
    co_await io_.run([&found, &path] { found.emplace(place_of(path)); });
    co_return std::move(*found);
  }

 private:
  static Result<Output> place_of(const std::string& path) {
    TR_ASSIGN_OR_RETURN(const std::string at, end_of_links(path));
    if (at.empty()) return Output{path, /*in_place=*/true};
    struct stat info {};
    const bool there = lstat(at.c_str(), &info) == 0;
    if (there && S_ISDIR(info.st_mode)) return failed("write", path, EISDIR);
    if (there && !S_ISREG(info.st_mode)) return Output{path, /*in_place=*/true};
    if (::access(directory_of(at).c_str(), W_OK | X_OK) == 0) return Output{at, /*in_place=*/false};
    const int failure = errno;
    if (there && ::access(at.c_str(), W_OK) == 0) return Output{at, /*in_place=*/true};
    return failed("write", path, failure);
  }

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
