// A shared segment backed by a sealed memory file, which a UnixStream can pass to another process.
#pragma once

#include <memory>

#include "trireme/runtime/network.h"
#include "trireme/runtime/real/fd.h"

namespace trireme::runtime::real {

class MemorySegment final : public SharedSegment {
 public:
  static Result<std::unique_ptr<SharedSegment>> make(const std::string& name, std::size_t bytes);
  static Result<std::unique_ptr<SharedSegment>> from_fd(Fd fd, std::size_t bytes);

  std::byte* data() override { return mapping_.data(); }
  std::size_t size() const override { return mapping_.size(); }
  int fd() const { return fd_.get(); }

 private:
  MemorySegment(Fd fd, Mapping mapping) : fd_(std::move(fd)), mapping_(std::move(mapping)) {}
  const Fd fd_;
  const Mapping mapping_;
};

}  // namespace trireme::runtime::real
