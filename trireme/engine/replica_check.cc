#include "trireme/engine/replica_check.h"

#include <fmt/format.h>
#include <algorithm>
#include <cstring>

#include "trireme/base/hash.h"
#include "trireme/plan/slots.h"

namespace trireme::engine {
namespace {

std::int64_t hash_of(const Tensor& tensor) {
  TraceHash hash;
  const auto* bytes = reinterpret_cast<const std::byte*>(tensor.raw());
  const std::size_t size = tensor.type().num_bytes();
  for (std::size_t i = 0; i < size; i += 8) {
    std::uint64_t word = 0;
    std::memcpy(&word, bytes + i, std::min<std::size_t>(8, size - i));
    hash.add(word);
  }
  return static_cast<std::int64_t>(hash.value());
}

// What most ranks have; rank 0's where no value has more than half.
std::int64_t agreed_hash(std::span<const std::int64_t> hashes, std::size_t stride, std::size_t world) {
  for (std::size_t a = 0; a < world; ++a) {
    std::size_t same = 0;
    for (std::size_t b = 0; b < world; ++b) same += hashes[a * stride] == hashes[b * stride] ? 1 : 0;
    if (2 * same > world) return hashes[a * stride];
  }
  return hashes[0];
}

}  // namespace

Status compare_replicas(std::span<const std::string> names, std::span<const std::int64_t> hashes,
                        std::int64_t step) {
  const std::size_t n = names.size(), world = n > 0 ? hashes.size() / n : 0;
  std::string first;
  std::vector<std::size_t> ranks;
  std::size_t differing = 0;
  for (std::size_t t = 0; t < n; ++t) {
    const std::int64_t agreed = agreed_hash(hashes.subspan(t), n, world);
    bool differs = false;
    for (std::size_t r = 0; r < world; ++r) {
      if (hashes[r * n + t] == agreed) continue;
      if (first.empty() || first == names[t]) ranks.push_back(r);
      if (first.empty()) first = names[t];
      differs = true;
    }
    differing += differs ? 1 : 0;
  }
  if (first.empty()) return {};
  return error(
      Code::kCorrupt,
      "[train] replicas differ after step {}: rank {} has other values in '{}' than the others ({} of "
      "{} tensors differ), expected equal bits; suspect the memory or the processor of that machine, "
      "and resume from the last checkpoint without it",
      step, fmt::join(ranks, " and rank "), first, differing, n);
}

runtime::Task<Status> check_replicas(runtime::Runtime& rt, comm::Group& group, std::int64_t step,
                                     io::NamedTensors tensors) {
  const auto n = static_cast<std::int64_t>(tensors.size());
  Device& device = rt.is_phantom() ? phantom_device() : cpu_device();
  TR_CO_ASSIGN_OR_RETURN(
      const Tensor all,
      Tensor::allocate(device, {DType::kI64, {n * static_cast<std::int64_t>(group.world())}}));
  const bool corrupt =
      rt.fault_point("weights", static_cast<std::uint64_t>(step)) == runtime::FaultAction::kMiscall;
  double bytes = 0;
  for (const auto& [name, tensor] : tensors) bytes += static_cast<double>(tensor.type().num_bytes());
  const cost::OpCost work{.flops = bytes / 2, .bytes = bytes};
  runtime::ComputeFn hash = [&](runtime::ComputeContext&) {
    if (corrupt) *reinterpret_cast<unsigned char*>(tensors.front().second.raw()) ^= 1;
    std::int64_t* to = all.data<std::int64_t>() + n * group.rank();
    for (const auto& [name, tensor] : tensors) *to++ = hash_of(tensor);
  };
  co_await rt.compute(work, std::move(hash), 1, "check replicas");
  comm::Call call;
  call.step = static_cast<std::uint32_t>(step);
  call.slot = plan::kSlotCheck;
  call.label = "replica check";
  const Tensor in_place;
  TR_CO_RETURN_IF_ERROR(co_await group.allgather(std::move(call), in_place, all));
  if (rt.is_phantom()) co_return Status();
  std::vector<std::string> names;
  for (const auto& [name, tensor] : tensors) names.push_back(name);
  co_return compare_replicas(names, all.values<std::int64_t>(), step);
}

}  // namespace trireme::engine
