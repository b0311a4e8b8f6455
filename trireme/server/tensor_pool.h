// TensorPool: f32 vectors that are used for a while and come back: payloads on their way, sums, copies.
#pragma once

#include <map>
#include <memory>
#include <vector>

#include "trireme/tensor/tensor.h"

namespace trireme::server {

// Goes back to its pool with the last holder; the pool may end before.
using Loan = std::shared_ptr<const Tensor>;

class TensorPool {
 public:
  explicit TensorPool(Device& device);
  // Contents are undefined. kExhausted when memory is.
  Result<Loan> take(std::int64_t elems);
  // A buffer of a size that others use too, for what varies.
  Result<Loan> take_at_least(std::int64_t elems);

 private:
  struct Shelf {
    std::map<std::int64_t, std::vector<Tensor>> free;
  };
  Device& device_;
  std::shared_ptr<Shelf> shelf_;
};

}  // namespace trireme::server
