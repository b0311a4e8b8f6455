// Device: where memory lives and kernels run. Streams order work on a device, Events mark points in a stream.
//
// On the CPU a stream is the calling thread and an event is ready at once; the interface is what a GPU needs,
// so that callers never assume that memory is readable because a function returned.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "trireme/base/status.h"

namespace trireme {

enum class DeviceKind : std::uint8_t { kCpu, kCuda };

class Device;

// A stretch of device memory, or a phantom: a size without storage. Shared ownership: tensors and views keep
// it alive.
class Buffer {
 public:
  Buffer() = default;
  // Memory that somebody else owns (a shared segment, a vector): `keep_alive` is released with the last
  // Buffer.
  static Buffer wrap(Device& device, std::byte* data, std::size_t bytes,
                     std::shared_ptr<void> keep_alive = nullptr);
  static Buffer phantom(Device& device, std::size_t bytes);

  bool is_null() const { return device_ == nullptr; }
  bool is_phantom() const { return device_ != nullptr && data_ == nullptr && bytes_ > 0; }
  std::byte* data() const { return data_; }  // null when phantom
  std::size_t size_bytes() const { return bytes_; }
  Device& device() const { return *device_; }
  // A part of this buffer that keeps the whole alive.
  Buffer slice(std::size_t offset, std::size_t bytes) const;

 private:
  Device* device_ = nullptr;
  std::byte* data_ = nullptr;
  std::size_t bytes_ = 0;
  std::shared_ptr<void> owner_;
};

// A point in a stream. Default-constructed: already reached.
class Event {
 public:
  virtual ~Event() = default;
  virtual bool is_ready() const = 0;
};

class DeviceStream {
 public:
  virtual ~DeviceStream() = default;
  virtual std::shared_ptr<Event> record() = 0;             // null means: reached already
  virtual void wait(const std::shared_ptr<Event>& e) = 0;  // later work of this stream waits for e
};

class Device {
 public:
  virtual ~Device() = default;
  virtual DeviceKind kind() const = 0;
  virtual std::string name() const = 0;
  // 64-byte aligned, uninitialised. kExhausted when it does not fit.
  virtual Result<Buffer> allocate(std::size_t bytes) = 0;
  // Copies between buffers of this device and the host in stream order. Phantom on either side: nothing
  // happens.
  virtual Status copy(const Buffer& from, const Buffer& to, DeviceStream* stream) = 0;
  virtual std::unique_ptr<DeviceStream> make_stream() = 0;
};

// The host's memory. Stateless; one instance serves everybody (it is immutable).
Device& cpu_device();
// A device whose buffers are all phantom: for plans that are too large to hold.
Device& phantom_device();

}  // namespace trireme
