#include "trireme/engine/shard_state.h"

#include "trireme/engine/move_state.h"
#include "trireme/plan/slots.h"
#include "trireme/prepare/batch.h"

namespace trireme::engine {
namespace {

using collective::LeafRun;
using runtime::Task;

comm::Call call_of(std::int64_t step, ShardMove move, bool back, std::size_t index, std::int64_t elems,
                   const std::vector<LeafRun>& owners) {
  const auto turn = 2 * static_cast<int>(move) + (back ? 1 : 0);
  comm::Call call;
  call.step = static_cast<std::uint32_t>(step);
  call.slot = plan::Slots::shard_state(turn, index);
  call.label = "state of shards";
  for (const LeafRun& run : owners) call.counts.push_back(run.count * elems);
  return call;
}

Result<Tensor> flat(const Tensor& t) { return t.reshape({t.shape().num_elems()}); }

// Rank 0's shards come first. It copies them itself: the group would do so on the loop.
Tensor first_part(const Tensor& all, const TensorType& type) {
  return Tensor(all.buffer(), type, all.offset_bytes());
}

std::int32_t num_shards(const std::vector<LeafRun>& owners) {
  std::int32_t sum = 0;
  for (const LeafRun& run : owners) sum += run.count;
  return sum;
}

}  // namespace

Task<Result<io::NamedTensors>> gather_shard_state(runtime::Runtime& rt, comm::Group& workers,
                                                  const comm::NamedState& own,
                                                  const std::vector<LeafRun>& owners, std::int64_t step,
                                                  ShardMove move) {
  io::NamedTensors all;
  for (std::size_t i = 0; i < own.size(); ++i) {
    const auto& [name, tensor] = own[i];
    const std::int64_t elems = tensor.shape()[1];
    const TensorType whole{DType::kF32, {num_shards(owners), elems}};
    Tensor to;
    if (workers.rank() == 0) {
      TR_CO_ASSIGN_OR_RETURN(to,
                             Tensor::allocate(tensor.is_phantom() ? phantom_device() : cpu_device(), whole));
      all.emplace_back("shard/" + name, to);
      TR_CO_ASSIGN_OR_RETURN(to, flat(to));
    }
    TR_CO_ASSIGN_OR_RETURN(Tensor block, flat(tensor));
    if (workers.rank() == 0) {
      co_await copy_tensor(rt, block, first_part(to, block.type()));
      block = Tensor();  // it is there
    }
    comm::Call call = call_of(step, move, false, i, elems, owners);
    TR_CO_RETURN_IF_ERROR(co_await workers.gather(std::move(call), block, to));
  }
  co_return all;
}

Task<Status> scatter_shard_state(runtime::Runtime& rt, comm::Group& workers, const comm::NamedState& own,
                                 const std::vector<LeafRun>& owners, const io::NamedTensors& all,
                                 std::int64_t step, ShardMove move, bool may_lack) {
  for (std::size_t i = 0; i < own.size(); ++i) {
    const auto& [name, tensor] = own[i];
    const std::int64_t elems = tensor.shape()[1];
    Tensor from;
    if (workers.rank() == 0) {
      for (const auto& [saved, t] : all)
        if (saved == "shard/" + name) from = t;
      const bool lacks = from.is_null() || from.shape().num_elems() != num_shards(owners) * elems;
      if (may_lack && lacks) {
        TR_CO_ASSIGN_OR_RETURN(from,
                               allocate_zeros(cpu_device(), {DType::kF32, {num_shards(owners), elems}}));
      }
      if (from.is_null() || from.shape().num_elems() != num_shards(owners) * elems)
        co_return error(Code::kCorrupt,
                        "[checkpoint] 'shard/{}' is missing or of another size: expected {} x {}", name,
                        num_shards(owners), elems);
      TR_CO_ASSIGN_OR_RETURN(from, flat(from));
    }
    TR_CO_ASSIGN_OR_RETURN(Tensor block, flat(tensor));
    if (workers.rank() == 0) {
      co_await copy_tensor(rt, first_part(from, block.type()), block);
      block = Tensor();
    }
    comm::Call call = call_of(step, move, true, i, elems, owners);
    TR_CO_RETURN_IF_ERROR(co_await workers.scatter(std::move(call), from, block));
  }
  co_return Status();
}

}  // namespace trireme::engine
