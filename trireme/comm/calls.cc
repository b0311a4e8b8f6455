#include "trireme/comm/calls.h"

#include <cstring>
#include <numeric>

#include "trireme/collective/contract.h"

namespace trireme::comm {
namespace {

using collective::Kind;

std::int64_t elems_of(const Tensor& t) { return t.is_null() ? 0 : t.shape().num_elems(); }

Request request_of(Kind kind, Call call, const Tensor& result) {
  Request r{.kind = kind, .call = std::move(call), .result = result};
  r.dtype = result.is_null() ? DType::kF32 : result.dtype();
  r.count = elems_of(result);
  return r;
}

// A stretch of a contiguous tensor.
Tensor stretch_of(const Tensor& t, std::int64_t offset, std::int64_t count) {
  const TensorType type{t.dtype(), Shape{count}};
  return Tensor(t.buffer(), type,
                t.offset_bytes() + static_cast<std::size_t>(offset) * dtype_size(t.dtype()));
}

Status check_like(const char* what, const Tensor& t, const Tensor& other, std::int64_t count) {
  if (t.is_null() || other.is_null())
    return error(Code::kInvalid, "[comm] {} is null: expected a tensor", what);
  if (t.dtype() != other.dtype() || elems_of(t) != count || !t.is_contiguous() || !other.is_contiguous())
    return error(Code::kInvalid, "[comm] {} does not fit: got {} of {}, expected {} of {}, contiguous", what,
                 elems_of(t), dtype_name(t.dtype()), count, dtype_name(other.dtype()));
  return {};
}

void copy(const Tensor& from, const Tensor& to) {
  if (from.raw() == nullptr || to.raw() == nullptr || from.raw() == to.raw()) return;
  std::memmove(to.raw(), from.raw(), static_cast<std::size_t>(elems_of(from)) * dtype_size(from.dtype()));
}

// Checks that `from` fits `to`, then copies.
Status copy_checked(const char* what, const Tensor& from, const Tensor& to) {
  TR_RETURN_IF_ERROR(check_like(what, from, to, elems_of(to)));
  copy(from, to);
  return {};
}

Result<Tensor> copy_of(const Tensor& t) {
  if (t.is_null() || !t.is_contiguous())
    return error(Code::kInvalid, "[comm] an input is null or strided: expected a contiguous tensor");
  if (t.is_phantom()) return t;
  TR_ASSIGN_OR_RETURN(Tensor made, Tensor::allocate(cpu_device(), t.type()));
  copy(t, made);
  return made;
}

collective::Chunking blocks_of(const Call& call, int world, std::int64_t count) {
  collective::ScheduleSpec spec;
  spec.world = world;
  spec.count = count;
  spec.counts = call.counts;
  return collective::rank_blocks(spec);
}

Status check_counts(const Call& call, int world, std::int64_t total) {
  if (call.counts.empty()) return {};
  const std::int64_t sum = std::accumulate(call.counts.begin(), call.counts.end(), std::int64_t{0});
  if (static_cast<int>(call.counts.size()) == world && sum == total) return {};
  return error(Code::kInvalid,
               "[comm] counts of '{}' do not fit: got {} that add up to {}, expected {} and {}", call.label,
               call.counts.size(), sum, world, total);
}

std::string text_at(std::string_view what, const std::string& label, const CallTime& time) {
  std::string text =
      fmt::format("{}{}{}, step {}", what, label.empty() ? "" : " ", label, time.step / time.num_shards);
  if (time.num_shards > 1) text += fmt::format(", shard {}", time.step % time.num_shards);
  if (time.iteration > 0) text += fmt::format(", iteration {}", time.iteration);
  return text;
}

// Gather and scatter: elements of all blocks, which only the root has. Without counts blocks are equal.
Result<std::int64_t> total_of(const Call& call, int world, bool is_root, const Tensor& block,
                              const Tensor& all) {
  if (!call.counts.empty()) return std::accumulate(call.counts.begin(), call.counts.end(), std::int64_t{0});
  if (!is_root) return elems_of(block) * world;
  if (elems_of(all) % world == 0) return elems_of(all);
  return error(Code::kInvalid, "[comm] '{}' has {} elements for {} ranks: expected a multiple; give counts",
               call.label, elems_of(all), world);
}

}  // namespace

std::string operation_text(Kind kind, const std::string& label, const CallTime& time) {
  return text_at(collective::kind_name(kind), label, time);
}

std::string operation_of(Kind kind, const Request& r) {
  const Call& call = r.call;
  if (call.slot == kLeaveSlot) return fmt::format("{} {}", collective::kind_name(kind), call.label);
  if (!r.message || kind != r.kind) return operation_text(kind, call.label, time_of(call));
  const int peer =
      r.members == nullptr ? r.message->peer : r.members->ranks[static_cast<std::size_t>(r.message->peer)];
  const bool sends = r.message->is_send;
  return text_at(
      sends ? "send" : "recv",
      fmt::format("{}{}{} rank {}", call.label, call.label.empty() ? "" : " ", sends ? "to" : "from", peer),
      time_of(call));
}

Request leave_request() {
  Request r{.kind = Kind::kBarrier, .call = {}, .result = {}};
  r.call.label = "at the end";
  r.call.algorithm = "dissemination";
  r.call.slot = kLeaveSlot;
  r.is_own = true;
  return r;
}

Status check_tensor(const char* what, const Tensor& t, DType dtype, std::int64_t count) {
  if (t.is_null()) return error(Code::kInvalid, "[comm] {} is null: expected a tensor", what);
  if (t.dtype() != dtype)
    return error(Code::kInvalid, "[comm] {} has another type: got {}, expected {}", what,
                 dtype_name(t.dtype()), dtype_name(dtype));
  if (!t.is_contiguous())
    return error(Code::kInvalid, "[comm] {} is strided: expected a contiguous tensor", what);
  if (t.shape().num_elems() != count)
    return error(Code::kInvalid, "[comm] {} has another size: got {} elements, expected {}", what,
                 t.shape().num_elems(), count);
  return {};
}

runtime::Task<Status> Calls::allreduce(Call call, Tensor data) {
  Request r = request_of(Kind::kAllreduce, std::move(call), data);
  if (!r.call.leaf_runs.empty())
    return refused(
        error(Code::kInvalid, "[comm] allreduce of '{}' has leaf runs; use allreduce_tree", r.call.label));
  r.one_partial = true;
  return run(std::move(r));
}

runtime::Task<Status> Calls::allreduce(Call call, Tensor in, Tensor out) {
  if (Status s = copy_checked("the input of an allreduce", in, out); !s.ok()) return refused(std::move(s));
  return allreduce(std::move(call), std::move(out));
}

runtime::Task<Status> Calls::allreduce_tree(Call call, std::span<const Tensor> partials, Tensor result) {
  Request r = request_of(Kind::kAllreduce, std::move(call), result);
  r.partials.assign(partials.begin(), partials.end());
  if (r.call.algorithm.empty()) r.call.algorithm = "fixed-tree";
  return run(std::move(r));
}

runtime::Task<Status> Calls::reduce(Call call, Tensor data) {
  return run(request_of(Kind::kReduce, std::move(call), data));
}

// A rank that is not the root works on a copy: its input stays as it is.
runtime::Task<Status> Calls::reduce(Call call, Tensor in, Tensor out) {
  if (rank() == call.root) {
    if (Status s = copy_checked("the input of a reduce", in, out); !s.ok()) return refused(std::move(s));
    return reduce(std::move(call), std::move(out));
  }
  Result<Tensor> work = copy_of(in);
  if (!work.ok()) return refused(work.status());
  return reduce(std::move(call), std::move(work).value());
}

runtime::Task<Status> Calls::broadcast(Call call, Tensor data) {
  if (call.algorithm.empty()) call.algorithm = "binomial";
  return run(request_of(Kind::kBroadcast, std::move(call), data));
}

runtime::Task<Status> Calls::gather(Call call, Tensor block, Tensor all) {
  const bool is_root = rank() == call.root;
  const auto total = total_of(call, world(), is_root, block, all);
  if (!total.ok()) return refused(total.status());
  if (is_root && !block.is_null()) {
    if (Status s = check_counts(call, world(), elems_of(all)); !s.ok()) return refused(std::move(s));
    const auto cut = blocks_of(call, world(), *total);
    const Tensor own = all.is_null() ? Tensor() : stretch_of(all, cut.offset(rank()), cut.size(rank()));
    if (Status s = copy_checked("the block of the root", block, own); !s.ok()) return refused(std::move(s));
  }
  Request r = request_of(Kind::kGather, std::move(call), is_root ? all : block);
  r.count = *total;
  return run(std::move(r));
}

runtime::Task<Status> Calls::scatter(Call call, Tensor all, Tensor block) {
  const bool is_root = rank() == call.root;
  const auto total = total_of(call, world(), is_root, block, all);
  if (!total.ok()) return refused(total.status());
  if (is_root && !block.is_null()) {
    if (Status s = check_counts(call, world(), elems_of(all)); !s.ok()) return refused(std::move(s));
    const auto cut = blocks_of(call, world(), *total);
    const Tensor own = all.is_null() ? Tensor() : stretch_of(all, cut.offset(rank()), cut.size(rank()));
    if (Status s = copy_checked("the block of the root", own, block); !s.ok()) return refused(std::move(s));
  }
  Request r = request_of(Kind::kScatter, std::move(call), is_root ? all : block);
  r.count = *total;
  return run(std::move(r));
}

runtime::Task<Status> Calls::allgather(Call call, Tensor block, Tensor all) {
  if (Status s = check_counts(call, world(), elems_of(all)); !s.ok()) return refused(std::move(s));
  if (!block.is_null() && !all.is_null()) {
    const auto cut = blocks_of(call, world(), elems_of(all));
    const Tensor own = stretch_of(all, cut.offset(rank()), cut.size(rank()));
    if (Status s = copy_checked("the block of an allgather", block, own); !s.ok())
      return refused(std::move(s));
  }
  return run(request_of(Kind::kAllgather, std::move(call), all));
}

runtime::Task<Status> Calls::reduce_scatter(Call call, Tensor data, Tensor block) {
  TR_CO_RETURN_IF_ERROR(check_counts(call, world(), elems_of(data)));
  if (block.is_null()) {
    Request in_place = request_of(Kind::kReduceScatter, std::move(call), data);
    in_place.one_partial = true;
    co_return co_await run(std::move(in_place));
  }
  TR_CO_ASSIGN_OR_RETURN(Tensor work, copy_of(data));
  const auto cut = blocks_of(call, world(), elems_of(work));
  const Tensor own = stretch_of(work, cut.offset(rank()), cut.size(rank()));
  TR_CO_RETURN_IF_ERROR(check_like("the block of a reduce-scatter", block, own, elems_of(own)));
  Request r = request_of(Kind::kReduceScatter, std::move(call), work);
  r.one_partial = true;
  TR_CO_RETURN_IF_ERROR(co_await run(std::move(r)));
  copy(own, block);
  co_return Status();
}

runtime::Task<Status> Calls::all_to_all(Call call, Tensor in, Tensor out) {
  const bool same = !in.is_null() && !out.is_null() && in.raw() == out.raw() && !in.is_phantom();
  Result<Tensor> input = same ? copy_of(in) : Result<Tensor>(in);
  if (!input.ok()) return refused(input.status());
  Request r = request_of(Kind::kAllToAll, std::move(call), out);
  const auto& counts = r.call.counts;
  r.count = counts.empty() ? elems_of(in) : std::accumulate(counts.begin(), counts.end(), std::int64_t{0});
  r.partials.push_back(std::move(input).value());
  return run(std::move(r));
}

runtime::Task<Status> Calls::neighbours(Call call, std::span<const Tensor> out, std::span<const Tensor> in) {
  Request r = request_of(Kind::kNeighbours, std::move(call), Tensor());
  for (const collective::Edge& e : r.call.edges) r.count += e.count;
  r.partials.assign(out.begin(), out.end());
  r.partials.insert(r.partials.end(), in.begin(), in.end());
  if (!r.partials.empty() && !r.partials[0].is_null()) r.dtype = r.partials[0].dtype();
  return run(std::move(r));
}

runtime::Task<Status> Calls::barrier(Call call) {
  return run(request_of(Kind::kBarrier, std::move(call), Tensor()));
}

runtime::Task<Status> Calls::send(Call call, int peer, Tensor data) {
  return exchange(std::move(call), {peer, true}, data);
}

runtime::Task<Status> Calls::recv(Call call, int peer, Tensor data) {
  return exchange(std::move(call), {peer, false}, data);
}

runtime::Task<Status> Calls::exchange(Call call, PeerTransfer message, const Tensor& data) {
  const int peer = message.peer;
  if (data.is_null() || peer < 0 || peer >= world() || peer == rank())
    return refused(error(Code::kInvalid,
                         "[comm] message '{}' between ranks {} and {}: expected a tensor and another rank of "
                         "0..{}",
                         call.label, rank(), peer, world() - 1));
  Request r = request_of(Kind::kNeighbours, std::move(call), data);
  r.result = Tensor();
  r.partials = {data};
  r.call.edges = {message.is_send ? collective::Edge{rank(), peer, r.count}
                                  : collective::Edge{peer, rank(), r.count}};
  r.message = message;
  r.call.algorithm = "direct";
  return run(std::move(r));
}

runtime::Task<Result<Tensor>> Calls::share(Call call, TensorType type) {
  const int root = call.root;
  return share_among(*this, root, std::move(call), type);
}

Chunk chunk_of(std::int64_t count, std::int64_t elem_bytes, int rank, int world) {
  constexpr std::int64_t kLineBytes = 64;
  const std::int64_t line = kLineBytes / elem_bytes;
  const std::int64_t chunk = ((count + world - 1) / world + line - 1) / line * line;
  return {std::min(count, chunk * rank), std::min(count, chunk * (rank + 1))};
}

}  // namespace trireme::comm
