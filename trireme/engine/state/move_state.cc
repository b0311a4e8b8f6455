#include "trireme/engine/state/move_state.h"

#include <algorithm>
#include <cstring>

#include "trireme/base/hash.h"
#include "trireme/plan/slots.h"

namespace trireme::engine {

using runtime::Runtime;
using runtime::Task;

Task<void> copy_tensor(Runtime& rt, Tensor from, Tensor to) {
  TR_CHECK(from.type() == to.type(), "a copy of {} into {}", from.type().to_string(), to.type().to_string());
  constexpr std::int64_t kOnLoopBytes = 1 << 20, kBytesPerThread = 1 << 20;
  const auto bytes = static_cast<std::int64_t>(from.type().num_bytes());
  if (from.raw() == nullptr || bytes == 0) co_return;
  if (bytes <= kOnLoopBytes) {
    std::memcpy(to.raw(), from.raw(), static_cast<std::size_t>(bytes));
    co_return;
  }
  runtime::ComputeFn copy = [from, to, bytes](runtime::ComputeContext& context) {
    context.parallel_for(bytes, [&](std::int64_t begin, std::int64_t end, int) {
      std::memcpy(to.raw() + begin, from.raw() + begin, static_cast<std::size_t>(end - begin));
    });
  };
  const int width =
      static_cast<int>(std::clamp<std::int64_t>(bytes / kBytesPerThread, 1, rt.compute_threads()));
  const cost::OpCost cost;
  co_await rt.compute(cost, std::move(copy), width, "copy state");
}

Task<std::string> hash_parameters(Runtime& rt, io::NamedTensors tensors) {
  if (rt.is_phantom()) co_return std::string();
  // A Task that is destroyed does not stop a function that runs: it owns what it writes.
  const auto sum = std::make_shared<std::string>();
  runtime::ComputeFn hash = [sum, tensors = std::move(tensors)](runtime::ComputeContext&) {
    *sum = io::parameters_sha256(tensors);
  };
  const cost::OpCost cost;
  co_await rt.compute(cost, std::move(hash), 1, "hash parameters");
  co_return *sum;
}

namespace {

// More elements into a hash, on the pool. A Task that is destroyed does not stop the function: it keeps both.
Task<Status> add_to(Runtime& rt, std::shared_ptr<Sha256> hash, Tensor chunk) {
  runtime::ComputeFn add = [hash, chunk](runtime::ComputeContext&) {
    hash->update(ByteView(chunk.raw(), chunk.type().num_bytes()));
  };
  const cost::OpCost cost;
  co_await rt.compute(cost, std::move(add), 1, "hash parameters");
  co_return Status();
}

}  // namespace

Task<Result<std::string>> hash_parameters(Runtime& rt, comm::Group& group, const HeldState& holding,
                                          std::int64_t step, std::int64_t chunk_bytes) {
  if (rt.is_phantom()) co_return std::string();
  if (all_replicated(holding.all)) {
    io::NamedTensors tensors;
    for (std::size_t i = 0; i < holding.size(); ++i)
      tensors.emplace_back(holding.tensor(i).name, holding.own[i].pieces[0]);
    co_return co_await hash_parameters(rt, std::move(tensors));
  }
  const auto hash = std::make_shared<Sha256>();
  PieceStream stream(rt, group, {plan::kSlotHash, step, "hash of the parameters", chunk_bytes});
  const PieceStream::Sink sink = [&rt, hash](parallel::Interval, Tensor chunk) {
    return add_to(rt, hash, std::move(chunk));
  };
  for (std::size_t i = 0; i < holding.size(); ++i) {
    const parallel::StateTensor& t = holding.tensor(i);
    if (group.rank() == 0) hash->update(io::parameters_head(t.name, t.whole));
    const parallel::Piece whole = parallel::Piece::of_whole(t.name, t.whole);
    TR_CO_RETURN_IF_ERROR(co_await stream.bring(holding, i, whole, 0, sink));
  }
  std::string digest = group.rank() == 0 ? hash->hex_digest() : std::string(64, ' ');
  TR_CO_ASSIGN_OR_RETURN(const Tensor text, Tensor::allocate(cpu_device(), {DType::kU8, {64}}));
  std::memcpy(text.raw(), digest.data(), digest.size());
  comm::Call call;
  call.slot = plan::kSlotHash;
  call.step = static_cast<std::uint32_t>(step);
  call.label = "hash of the parameters";
  TR_CO_RETURN_IF_ERROR(co_await group.broadcast(std::move(call), text));
  std::memcpy(digest.data(), text.raw(), digest.size());
  co_return digest;
}

}  // namespace trireme::engine
