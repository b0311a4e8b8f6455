#include "trireme/server/tensor_pool.h"

#include <algorithm>
#include <bit>

namespace trireme::server {

TensorPool::TensorPool(Device& device) : device_(device), shelf_(std::make_shared<Shelf>()) {}

Result<Loan> TensorPool::take(std::int64_t elems) {
  std::vector<Tensor>& free = shelf_->free[elems];
  if (free.empty()) {
    TR_ASSIGN_OR_RETURN(Tensor fresh, Tensor::allocate(device_, {DType::kF32, {elems}}));
    free.push_back(std::move(fresh));
  }
  auto* tensor = new Tensor(std::move(free.back()));
  free.pop_back();
  return Loan(tensor, [shelf = shelf_, elems](const Tensor* t) {
    shelf->free[elems].push_back(*t);
    delete t;
  });
}

Result<Loan> TensorPool::take_at_least(std::int64_t elems) {
  return take(static_cast<std::int64_t>(
      std::bit_ceil(static_cast<std::uint64_t>(std::max<std::int64_t>(elems, 64)))));
}

}  // namespace trireme::server
