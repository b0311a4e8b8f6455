// SharedArena: one piece of GPU memory for graphs that never run at the same time, such as a step and an
// evaluation. As the device of several Executions it gives them all the same memory, as large as the first
// wanted; what does not fit there has its own.
#pragma once

#include <memory>

#include "trireme/tensor/device.h"

namespace trireme::engine {

class SharedArena final : public Device {
 public:
  explicit SharedArena(std::shared_ptr<Device> device) : device_(std::move(device)) {}

  DeviceKind kind() const override { return device_->kind(); }
  std::string name() const override { return device_->name(); }
  Result<Buffer> allocate(std::size_t bytes) override {
    if (!memory_.is_null() && memory_.size_bytes() >= bytes) return memory_;
    Result<Buffer> made = device_->allocate(bytes);
    if (made.ok() && memory_.is_null()) memory_ = *made;
    return made;
  }
  Status copy(const Buffer& from, const Buffer& to, DeviceStream* stream) override {
    return device_->copy(from, to, stream);
  }
  std::unique_ptr<DeviceStream> make_stream() override { return device_->make_stream(); }

 private:
  std::shared_ptr<Device> device_;
  Buffer memory_;
};

}  // namespace trireme::engine
