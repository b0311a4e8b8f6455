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

namespace {

// Message `turn` of the two: the size, the bytes.
comm::Call call_of(const PeerText& what, int turn) {
  comm::Call call;
  call.slot = what.slot;
  call.step = what.step;
  call.iteration = static_cast<std::uint16_t>(what.iteration + turn);
  call.label = what.label;
  return call;
}

}  // namespace

runtime::Task<Status> send_text(comm::Group& group, PeerText what, int peer, std::string text) {
  TR_CO_ASSIGN_OR_RETURN(const Tensor size, Tensor::allocate(cpu_device(), {DType::kI64, {1}}));
  *size.data<std::int64_t>() = static_cast<std::int64_t>(text.size());
  TR_CO_RETURN_IF_ERROR(co_await group.send(call_of(what, 0), peer, size));
  if (text.empty()) co_return Status();
  const TensorType type{DType::kU8, {static_cast<std::int64_t>(text.size())}};
  TR_CO_ASSIGN_OR_RETURN(const Tensor data, Tensor::allocate(cpu_device(), type));
  std::memcpy(data.raw(), text.data(), text.size());
  co_return co_await group.send(call_of(what, 1), peer, data);
}

runtime::Task<Result<std::string>> recv_text(comm::Group& group, PeerText what, int peer) {
  TR_CO_ASSIGN_OR_RETURN(const Tensor size, Tensor::allocate(cpu_device(), {DType::kI64, {1}}));
  TR_CO_RETURN_IF_ERROR(co_await group.recv(call_of(what, 0), peer, size));
  if (*size.data<std::int64_t>() == 0) co_return std::string();
  const TensorType type{DType::kU8, {*size.data<std::int64_t>()}};
  TR_CO_ASSIGN_OR_RETURN(const Tensor data, Tensor::allocate(cpu_device(), type));
  TR_CO_RETURN_IF_ERROR(co_await group.recv(call_of(what, 1), peer, data));
  co_return std::string(reinterpret_cast<const char*>(data.raw()), type.num_bytes());
}

}  // namespace trireme::engine
