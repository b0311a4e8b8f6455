#include "trireme/engine/replica_check.h"

#include <fmt/format.h>
#include <algorithm>
#include <cstring>
#include <set>

#include "trireme/base/hash.h"
#include "trireme/io/shards.h"
#include "trireme/plan/slots.h"

namespace trireme::engine {
namespace {

std::int64_t hash_of(const Tensor& tensor) {
  TraceHash hash;
  const std::size_t elem_bytes = dtype_size(tensor.dtype());
  const auto add = [&](const std::byte* bytes, std::int64_t, std::int64_t count) {
    const std::size_t size = static_cast<std::size_t>(count) * elem_bytes;
    for (std::size_t i = 0; i < size; i += 8) {
      std::uint64_t word = 0;
      std::memcpy(&word, bytes + i, std::min<std::size_t>(8, size - i));
      hash.add(word);
    }
  };
  for_runs(tensor, {0, tensor.shape().num_elems()}, add);
  return static_cast<std::int64_t>(hash.value());
}

// What most holders have; the first one's where no value has more than half.
std::int64_t agreed_hash(const std::vector<std::int64_t>& hashes) {
  for (const std::int64_t one : hashes)
    if (2 * std::count(hashes.begin(), hashes.end(), one) > static_cast<std::int64_t>(hashes.size()))
      return one;
  return hashes[0];
}

// The holders that have other values than most.
std::vector<int> odd_ones(const CheckedPiece& piece, std::span<const std::int64_t> hashes,
                          std::size_t columns) {
  std::vector<std::int64_t> own;
  for (const int rank : piece.ranks)
    own.push_back(hashes[static_cast<std::size_t>(rank) * columns + piece.column]);
  const std::int64_t agreed = agreed_hash(own);
  std::vector<int> out;
  for (std::size_t i = 0; i < own.size(); ++i)
    if (own[i] != agreed) out.push_back(piece.ranks[i]);
  return out;
}

}  // namespace

CheckedPieces checked_pieces(const parallel::Holdings& holdings) {
  CheckedPieces all;
  all.tensors = holdings.tensors.size();
  for (std::size_t t = 0; t < holdings.tensors.size(); ++t) {
    std::size_t most = 0, of_rank = 0;
    int before = -1;
    for (const parallel::FirstHeld& held : distinct_pieces(holdings, t)) {
      of_rank = held.rank == before ? of_rank + 1 : 0;
      before = held.rank;
      most = std::max(most, of_rank + 1);
      all.pieces.push_back(
          {io::stored_name(held.piece), t, all.columns + of_rank, holders(holdings, t, held.rank)});
    }
    all.columns += most;
  }
  return all;
}

Status compare_replicas(const CheckedPieces& all, std::span<const std::int64_t> hashes, std::int64_t step) {
  std::string first;
  std::vector<int> ranks;
  std::set<std::size_t> differing;
  for (const CheckedPiece& piece : all.pieces) {
    std::vector<int> odd = odd_ones(piece, hashes, all.columns);
    if (odd.empty()) continue;
    differing.insert(piece.tensor);
    if (!first.empty()) continue;
    first = piece.text;
    ranks = std::move(odd);
  }
  if (first.empty()) return {};
  return error(
      Code::kCorrupt,
      "[train] replicas differ after step {}: rank {} has other values in '{}' than the others ({} of "
      "{} tensors differ), expected equal bits; suspect the memory or the processor of that machine, "
      "and resume from the last checkpoint without it",
      step, fmt::join(ranks, " and rank "), first, differing.size(), all.tensors);
}

runtime::Task<Status> check_replicas(runtime::Runtime& rt, comm::Group& group, std::int64_t step,
                                     const HeldState& holding) {
  const CheckedPieces pieces = checked_pieces(holding.all);
  const auto n = static_cast<std::int64_t>(pieces.columns);
  Device& device = rt.is_phantom() ? phantom_device() : cpu_device();
  TR_CO_ASSIGN_OR_RETURN(
      const Tensor all,
      Tensor::allocate(device, {DType::kI64, {n * static_cast<std::int64_t>(group.world())}}));
  const bool corrupt =
      rt.fault_point("weights", static_cast<std::uint64_t>(step)) == runtime::FaultAction::kMiscall;
  double bytes = 0;
  std::vector<std::pair<std::size_t, Tensor>> own;  // column and memory
  std::vector<std::size_t> begins(holding.size(), pieces.columns);
  for (const CheckedPiece& p : pieces.pieces) begins[p.tensor] = std::min(begins[p.tensor], p.column);
  for (std::size_t i = 0; i < holding.size(); ++i)
    for (std::size_t p = 0; p < holding.own[i].pieces.size(); ++p) {
      own.emplace_back(begins[i] + p, holding.own[i].pieces[p]);
      bytes += static_cast<double>(own.back().second.type().num_bytes());
    }
  const cost::OpCost work{.flops = bytes / 2, .bytes = bytes};
  runtime::ComputeFn hash = [&](runtime::ComputeContext&) {
    if (corrupt) *reinterpret_cast<unsigned char*>(own.front().second.raw()) ^= 1;
    std::int64_t* to = all.data<std::int64_t>() + n * group.rank();
    std::fill_n(to, n, 0);
    for (const auto& [column, memory] : own) to[column] = hash_of(memory);
  };
  co_await rt.compute(work, std::move(hash), 1, "check replicas");
  comm::Call call;
  call.step = static_cast<std::uint32_t>(step);
  call.slot = plan::kSlotCheck;
  call.label = "replica check";
  const Tensor in_place;
  TR_CO_RETURN_IF_ERROR(co_await group.allgather(std::move(call), in_place, all));
  if (rt.is_phantom()) co_return Status();
  co_return compare_replicas(pieces, all.values<std::int64_t>(), step);
}

}  // namespace trireme::engine
