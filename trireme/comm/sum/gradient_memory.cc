#include "trireme/comm/sum/gradient_memory.h"

#include "trireme/comm/sum/coded_work.h"

namespace trireme::comm {

// The first lies where other ranks of the host can read it, where the group has such memory.
Status GradientMemory::take_places(std::size_t count) {
  const TensorType type{DType::kF32, {num_elems_}};
  while (places_.size() > count) given_.pop_back(), places_.pop_back();
  while (places_.size() < count) {
    TR_ASSIGN_OR_RETURN(Tensor own,
                        places_.empty() ? group_.allocate(type) : allocate_zeros(device_of(rt_), type));
    places_.push_back(std::move(own));
    given_.emplace_back();
  }
  return {};
}

void GradientMemory::give_back() {
  for (std::size_t i = 0; i < places_.size(); ++i)
    if (std::byte* const first = places_[i].raw(); first != nullptr)
      given_[i].give_back(first, places_[i].type().num_bytes());
}

void GradientMemory::take_again() {
  for (GivenPages& given : given_) given.take_again();
}

}  // namespace trireme::comm
