// DeviceMirror: tensors of the host that live on a GPU. Executions given the mirror use the copies there and
// leave those on the host alone; whoever looks at the host's, or changes them, says so. Not locked.
#pragma once

#include <map>
#include <memory>
#include <optional>

#include "trireme/tensor/tensor.h"

namespace trireme::exec {

class DeviceMirror {
 public:
  explicit DeviceMirror(std::shared_ptr<Device> device) : device_(std::move(device)) {}

  // From now on the memory of `host` (its whole Buffer, so all views of it) has a copy on the device, with
  // undefined contents. kExhausted where it does not fit.
  Status add(const Tensor& host);
  std::optional<Tensor> find(const Tensor& host) const;  // the same view of the copy
  // Between the copies; for tensors that were added. They wait until it is done.
  Status upload(const Tensor& host) const;
  Status download(const Tensor& host) const;
  Status upload_all() const;
  Status download_all() const;

 private:
  struct Pair {
    Buffer host, device;
  };
  std::shared_ptr<Device> device_;
  std::map<const std::byte*, Pair> pairs_;  // by the first byte on the host
};

}  // namespace trireme::exec
