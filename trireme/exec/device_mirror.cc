#include "trireme/exec/device_mirror.h"

namespace trireme::exec {
namespace {

Buffer bytes_of(const Tensor& t) { return t.buffer().slice(t.offset_bytes(), t.type().num_bytes()); }

}  // namespace

Status DeviceMirror::add(const Tensor& host) {
  const Buffer& memory = host.buffer();
  if (memory.size_bytes() == 0 || pairs_.contains(memory.data())) return {};
  TR_ASSIGN_OR_RETURN(Buffer copy, device_->allocate(memory.size_bytes()));
  pairs_.emplace(memory.data(), Pair{memory, std::move(copy)});
  return {};
}

std::optional<Tensor> DeviceMirror::find(const Tensor& host) const {
  const auto at = pairs_.find(host.buffer().data());
  if (at == pairs_.end() || at->second.host.size_bytes() != host.buffer().size_bytes()) return std::nullopt;
  return Tensor(at->second.device, host.type(), host.offset_bytes());
}

Status DeviceMirror::upload(const Tensor& host) const {
  const std::optional<Tensor> copy = find(host);
  TR_CHECK(copy.has_value(), "a tensor that is not mirrored");
  return device_->copy(bytes_of(host), bytes_of(*copy), nullptr);
}

Status DeviceMirror::download(const Tensor& host) const {
  const std::optional<Tensor> copy = find(host);
  TR_CHECK(copy.has_value(), "a tensor that is not mirrored");
  return device_->copy(bytes_of(*copy), bytes_of(host), nullptr);
}

Status DeviceMirror::upload_all() const {
  for (const auto& [at, pair] : pairs_) TR_RETURN_IF_ERROR(device_->copy(pair.host, pair.device, nullptr));
  return {};
}

Status DeviceMirror::download_all() const {
  for (const auto& [at, pair] : pairs_) TR_RETURN_IF_ERROR(device_->copy(pair.device, pair.host, nullptr));
  return {};
}

}  // namespace trireme::exec
