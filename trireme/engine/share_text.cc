#include "trireme/engine/share_text.h"

#include <cstring>

namespace trireme::engine {

// As f32 words: a broadcast moves bits.
runtime::Task<Result<std::string>> broadcast_text(runtime::Runtime& rt, comm::Group& group, TextCall what,
                                                  std::string text) {
  Device& device = rt.is_phantom() ? phantom_device() : cpu_device();
  TR_CO_ASSIGN_OR_RETURN(const Tensor size, Tensor::allocate(device, {DType::kF32, {2}}));
  const bool root = group.rank() == what.root;
  std::uint64_t bytes = text.size();
  if (root && !rt.is_phantom()) std::memcpy(size.raw(), &bytes, 8);
  comm::Call call;
  call.root = what.root;
  call.step = what.step;
  call.slot = what.size_slot;
  call.label = fmt::format("size of the {}", what.label);
  TR_CO_RETURN_IF_ERROR(co_await group.broadcast(call, size));
  if (!rt.is_phantom()) std::memcpy(&bytes, size.raw(), 8);
  const auto words = static_cast<std::int64_t>((bytes + 3) / 4);
  TR_CO_ASSIGN_OR_RETURN(const Tensor data, Tensor::allocate(device, {DType::kF32, {words}}));
  if (root && !rt.is_phantom()) std::memcpy(data.raw(), text.data(), text.size());
  call.slot = what.slot;
  call.label = what.label;
  TR_CO_RETURN_IF_ERROR(co_await group.broadcast(call, data));
  if (!root && !rt.is_phantom()) text.assign(reinterpret_cast<const char*>(data.raw()), bytes);
  co_return text;
}

}  // namespace trireme::engine
