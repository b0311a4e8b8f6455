#include "trireme/tensor/device.h"

#include <cstring>

#include "trireme/tensor/host_memory.h"

namespace trireme {

namespace {

// Host memory is there when a call returns: events are always reached.
class HostStream final : public DeviceStream {
 public:
  std::shared_ptr<Event> record() override { return nullptr; }
  void wait(const std::shared_ptr<Event>& e) override {
    TR_CHECK(e == nullptr || e->is_ready(), "a host stream cannot wait for an event of another device");
  }
};

Status check_copy(const Buffer& from, const Buffer& to) {
  if (from.size_bytes() == to.size_bytes()) return ok_status();
  return error(Code::kInvalid,
               "[device] copy between buffers of different sizes: got {} and {} bytes, expected equal",
               from.size_bytes(), to.size_bytes());
}

class CpuDevice final : public Device {
 public:
  DeviceKind kind() const override { return DeviceKind::kCpu; }
  std::string name() const override { return "cpu"; }
  Result<Buffer> allocate(std::size_t bytes) override {
    if (bytes == 0) return Buffer::wrap(*this, nullptr, 0);
    std::shared_ptr<std::byte> memory = take_host_memory(bytes);
    if (memory == nullptr) {
      return error(Code::kExhausted, "[device] out of memory on cpu: got a request for {} bytes", bytes);
    }
    std::byte* const at = memory.get();
    return Buffer::wrap(*this, at, bytes, std::move(memory));
  }
  Status copy(const Buffer& from, const Buffer& to, DeviceStream*) override {
    TR_RETURN_IF_ERROR(check_copy(from, to));
    if (from.data() != nullptr && to.data() != nullptr)
      std::memmove(to.data(), from.data(), from.size_bytes());
    return ok_status();
  }
  std::unique_ptr<DeviceStream> make_stream() override { return std::make_unique<HostStream>(); }
};

class PhantomDevice final : public Device {
 public:
  DeviceKind kind() const override { return DeviceKind::kCpu; }
  std::string name() const override { return "phantom"; }
  Result<Buffer> allocate(std::size_t bytes) override { return Buffer::phantom(*this, bytes); }
  Status copy(const Buffer& from, const Buffer& to, DeviceStream*) override { return check_copy(from, to); }
  std::unique_ptr<DeviceStream> make_stream() override { return std::make_unique<HostStream>(); }
};
}  // namespace

Buffer Buffer::wrap(Device& device, std::byte* data, std::size_t bytes, std::shared_ptr<void> keep_alive) {
  TR_CHECK(data != nullptr || bytes == 0, "{} bytes at null", bytes);
  Buffer b;
  b.device_ = &device;
  b.data_ = data;
  b.bytes_ = bytes;
  b.owner_ = std::move(keep_alive);
  return b;
}

Buffer Buffer::phantom(Device& device, std::size_t bytes) {
  Buffer b;
  b.device_ = &device;
  b.bytes_ = bytes;
  return b;
}

Buffer Buffer::slice(std::size_t offset, std::size_t bytes) const {
  TR_CHECK(offset <= bytes_ && bytes <= bytes_ - offset, "slice of {} bytes at {} of a buffer of {}", bytes,
           offset, bytes_);
  Buffer b = *this;
  if (b.data_ != nullptr) b.data_ += offset;
  b.bytes_ = bytes;
  return b;
}

Device& cpu_device() {
  static CpuDevice device;
  return device;
}

Device& phantom_device() {
  static PhantomDevice device;
  return device;
}

}  // namespace trireme
