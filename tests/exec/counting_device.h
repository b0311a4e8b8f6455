// A Device that counts what it gave out.
#pragma once

#include <algorithm>
#include <memory>
#include <string>

#include "trireme/tensor/device.h"

namespace trireme::exec {

// The host's memory, with a count of what is out.
class CountingDevice final : public Device {
 public:
  DeviceKind kind() const override { return DeviceKind::kCpu; }
  std::string name() const override { return "counting"; }
  Result<Buffer> allocate(std::size_t bytes) override {
    TR_ASSIGN_OR_RETURN(const Buffer memory, cpu_device().allocate(bytes));
    auto count = count_;
    count->now += bytes;
    count->peak = std::max(count->peak, count->now);
    const std::shared_ptr<void> owner(memory.data(), [memory, bytes, count](void*) { count->now -= bytes; });
    return Buffer::wrap(*this, memory.data(), bytes, owner);
  }
  Status copy(const Buffer& from, const Buffer& to, DeviceStream* stream) override {
    return cpu_device().copy(from, to, stream);
  }
  std::unique_ptr<DeviceStream> make_stream() override { return cpu_device().make_stream(); }
  std::int64_t now() const { return static_cast<std::int64_t>(count_->now); }
  std::int64_t peak() const { return static_cast<std::int64_t>(count_->peak); }

 private:
  struct Count {
    std::size_t now = 0, peak = 0;
  };
  std::shared_ptr<Count> count_ = std::make_shared<Count>();
};

}  // namespace trireme::exec
