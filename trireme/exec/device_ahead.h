// DeviceAhead: tensors of the host that travel to a GPU before they are used, on a stream of their own, so
// that the copy runs beside the kernels of the step before.
//
// A tensor has a place on the host, one on the device, and two events: its content has arrived there, and was
// read there. Called from any thread; of one tensor: settle(), write it, send(), any number of receive(), and
// again.
#pragma once

#include <map>
#include <memory>
#include <mutex>

#include "trireme/tensor/tensor.h"

namespace trireme::kernel::cuda {
class KernelStream;
}

namespace trireme::exec {

class DeviceAhead {
 public:
  explicit DeviceAhead(std::shared_ptr<Device> device);
  ~DeviceAhead();

  // Page-locked memory of the host, zeros, with a place on the device. kExhausted where that does not fit.
  Result<Tensor> allocate(const TensorType& type);
  void free(const Tensor& host);
  bool has(const Tensor& host) const;
  // What was sent of it has left, so it may be written; settle() waits for that.
  bool is_settled(const Tensor& host) const;
  Status settle(const Tensor& host);
  // Its content sets out for the device; nobody waits. Tensors of others stay where they are.
  Status send(const Tensor& host);
  // Puts on `stream`: wait for the content, copy it to `to`. False, and nothing is done: `host` is none of
  // these, or was never sent.
  Result<bool> receive(const Tensor& host, const Tensor& to, kernel::cuda::KernelStream& stream);
  std::size_t device_bytes() const;

 private:
  struct Item {
    Tensor host, device;
    std::shared_ptr<Event> arrived, used;  // null: never sent, never received
  };
  std::shared_ptr<Device> device_;
  mutable std::mutex mutex_;                // of all below
  std::map<const std::byte*, Item> items_;  // by the first byte on the host
  std::unique_ptr<kernel::cuda::KernelStream> stream_;
};

}  // namespace trireme::exec
