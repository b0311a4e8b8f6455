// Owned file descriptors and memory mappings, and failures of the operating system as Status.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>

#include "trireme/base/status.h"

namespace trireme::runtime::real {

class Fd {
 public:
  Fd() = default;
  explicit Fd(int fd) : fd_(fd) {}
  Fd(Fd&& o) noexcept : fd_(std::exchange(o.fd_, -1)) {}
  Fd& operator=(Fd&& o) noexcept {
    if (this != &o) {
      reset();
      fd_ = std::exchange(o.fd_, -1);
    }
    return *this;
  }
  ~Fd() { reset(); }

  explicit operator bool() const { return fd_ >= 0; }
  int get() const { return fd_; }
  void reset();
  Fd duplicate() const;  // close-on-exec; empty when the process has no descriptors left

 private:
  int fd_ = -1;
};

// A shared, writable mapping of a whole memory file.
class Mapping {
 public:
  Mapping() = default;
  Mapping(Mapping&& o) noexcept : data_(std::exchange(o.data_, nullptr)), size_(std::exchange(o.size_, 0)) {}
  Mapping& operator=(Mapping&& o) noexcept {
    std::swap(data_, o.data_);
    std::swap(size_, o.size_);
    return *this;
  }
  ~Mapping();
  static Result<Mapping> of(const Fd& fd, std::size_t bytes);

  std::byte* data() const { return data_; }
  std::size_t size() const { return size_; }

 private:
  std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};

// An anonymous memory file of fixed size: sealed, so that no holder can shrink it under another's feet
// (SIGBUS).
Result<Fd> make_memory_file(const std::string& name, std::size_t bytes);
// Checks a memory file that came from another process: size and seals as make_memory_file sets them.
Status check_memory_file(const Fd& fd, std::size_t bytes);

// What an errno means for a caller: a missing file is kNotFound, a full disk or table kExhausted...
Code code_of_errno(int error_number);
std::string text_of_errno(int error_number);
// "; this process may open 1024 files (ulimit -n); raise the limit"
std::string open_files_hint();
// "[area] cannot <action>: <reason>", with the hint where descriptors are the reason.
Status system_error(std::string_view area, std::string_view action, int error_number);

}  // namespace trireme::runtime::real
