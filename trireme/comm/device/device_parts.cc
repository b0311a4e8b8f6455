#include "trireme/comm/device/device_parts.h"

#include "trireme/comm/calls.h"

namespace trireme::comm {

using kernel::cuda::Addition;
using runtime::Task;

namespace {

constexpr std::size_t kAlign = 512;

struct Adder {
  collective::LeafRun run;
  std::int32_t end;  // of all leaves
  std::vector<Addition> additions = {};

  int join(int left, int right) {
    additions.push_back({left, right});
    return run.count + static_cast<int>(additions.size()) - 1;
  }
  // The operand that is the sum of a node: a half beyond the last leaf does not exist.
  int node(std::int32_t first, std::int32_t level) {
    if (level == 0) return first - run.first;
    const std::int32_t half = std::int32_t{1} << (level - 1);
    const int left = node(first, level - 1);
    if (first + half >= end) return left;
    return join(left, node(first + half, level - 1));
  }
};

}  // namespace

std::vector<Addition> tree_additions(collective::LeafRun run, std::int32_t num_leaves) {
  Adder adder{run, num_leaves};
  int sum = -1;
  for (const collective::TreeNode& n : collective::maximal_subtrees(run, num_leaves)) {
    const int next = adder.node(n.first, n.level);
    sum = sum < 0 ? next : adder.join(sum, next);
  }
  return adder.additions;
}

Result<ShardLayout> ShardLayout::make(const DeviceSumOptions& options, bool with_messages) {
  ShardLayout out;
  for (const std::int64_t elems : options.vector_elems) {
    out.offsets.push_back(out.shard_bytes);
    out.shard_bytes += (static_cast<std::size_t>(elems) * sizeof(float) + kAlign - 1) / kAlign * kAlign;
  }
  for (std::size_t v = 0; with_messages && v < options.vector_elems.size(); ++v) {
    TR_ASSIGN_OR_RETURN(const std::size_t room, message_room(options, v));
    out.messages.push_back(out.shard_bytes);
    out.shard_bytes += room;
  }
  return out;
}

DeviceSumBase::DeviceSumBase(runtime::Runtime& rt, Group& group, DeviceSumOptions options, OwnParts own)
    : rt_(rt),
      group_(group),
      options_(std::move(options)),
      own_(std::move(own)),
      owned_stream_(kernel::cuda::make_kernel_stream(gpu())),
      stream_(*owned_stream_) {}

Tensor DeviceSumBase::memory(std::size_t shard, std::size_t vector) const {
  const TensorType type{DType::kF32, {options_.vector_elems[vector]}};
  return Tensor(own_.memory.slice(own_.layout.at(shard, vector), type.num_bytes()), type);
}

Task<Status> DeviceSumBase::sum(DeviceCall call) {
  runtime::OneShot<bool> turn(rt_);
  if (std::exchange(busy_, true)) {
    waiting_.push_back(&turn);
    co_await turn.wait_until(kForever);  // the calls before end by their own deadlines
  }
  Status status;
  const bool encodes = own_.coder != nullptr && own_.coder->encodes_at(call.step);
  if (own_.coder != nullptr && !encodes && own_.coder->watches()) status = co_await watch(call);
  if (status.ok() && encodes) {
    status = co_await sum_coded(call);
  } else if (status.ok()) {
    status = co_await sum_now(call);
  }
  if (!status.ok() && group_.verdict().ok()) {
    const std::string what = operation_text(collective::Kind::kAllreduce, call.label, {.step = call.step});
    group_.fail(what, status.message());
  }
  if (waiting_.empty()) {
    busy_ = false;
  } else {
    waiting_.front()->set(true);
    waiting_.pop_front();
  }
  co_return status;
}

Task<Status> DeviceSumBase::meet(const DeviceCall& call, std::uint16_t slot, const char* what) {
  Call barrier;
  barrier.step = call.step;
  barrier.slot = slot;
  barrier.label = fmt::format("{} {}", call.label, what);
  co_return co_await group_.barrier(std::move(barrier));
}

Task<Status> DeviceSumBase::add(const kernel::cuda::VectorSum& sum, std::vector<const float*> inputs,
                                std::vector<float*> outputs, Chunk part) {
  if (part.size() == 0) co_return Status();
  Status done;
  const auto elems = static_cast<double>(part.size());
  const cost::OpCost work{.flops = elems * static_cast<double>(inputs.size()),
                          .bytes = 4 * elems * static_cast<double>(inputs.size() + outputs.size())};
  runtime::ComputeFn run = [&](runtime::ComputeContext&) {
    done = sum.enqueue(stream_, inputs, outputs, part.begin, part.end);
    if (done.ok()) done = stream_.synchronize();
  };
  co_await rt_.compute(work, std::move(run), 1, "add on GPU");
  co_return done;
}

Task<Status> DeviceSumBase::encode(const DeviceCall& call) {
  const auto shards = static_cast<std::size_t>(own_run().count);
  const double elems = static_cast<double>(options_.vector_elems[call.vector]) * static_cast<double>(shards);
  const cost::OpCost work{.flops = elems, .bytes = 12 * elems};
  DeviceCoder& coder = *own_.coder;
  const TimeNs began = rt_.now();
  lengths_.clear();
  const auto make = [&]() -> Status {
    TR_RETURN_IF_ERROR(coder.prepare(call.step, call.vector));
    for (std::size_t s = 0; s < shards; ++s)
      TR_RETURN_IF_ERROR(
          coder.encode(stream_, call.vector, s, values(s, call.vector), message_at(s, call.vector)));
    TR_RETURN_IF_ERROR(stream_.synchronize());
    for (std::size_t s = 0; s < shards; ++s) {
      TR_ASSIGN_OR_RETURN(const std::size_t length,
                          coder.length(stream_, call.vector, message_at(s, call.vector)));
      lengths_.push_back(length);
    }
    return {};
  };
  Status done;
  runtime::ComputeFn run = [&](runtime::ComputeContext&) { done = make(); };
  co_await rt_.compute(work, std::move(run), 1, "encode on GPU");
  coder.stats.encode_ns += rt_.now() - began;
  for (const std::size_t length : lengths_) coder.stats.bytes += static_cast<double>(length);
  coder.stats.messages += static_cast<std::int64_t>(lengths_.size());
  co_return done;
}

Task<Status> DeviceSumBase::watch(const DeviceCall& call) {
  const auto shards = static_cast<std::size_t>(own_run().count);
  const double elems = static_cast<double>(options_.vector_elems[call.vector]) * static_cast<double>(shards);
  const cost::OpCost work{.flops = 2 * elems, .bytes = 12 * elems};
  Status done;
  runtime::ComputeFn run = [&](runtime::ComputeContext&) {
    for (std::size_t s = 0; s < shards && done.ok(); ++s)
      done = own_.coder->watch(stream_, call.vector, s, values(s, call.vector));
    if (done.ok()) done = stream_.synchronize();
  };
  co_await rt_.compute(work, std::move(run), 1, "velocities on GPU");
  co_return done;
}

Task<Status> DeviceSumBase::decode(const DeviceCall& call, Messages messages) {
  const double elems = static_cast<double>(options_.vector_elems[call.vector]);
  const cost::OpCost work{.flops = elems * static_cast<double>(messages.size()), .bytes = 8 * elems};
  const TimeNs began = rt_.now();
  Status done;
  runtime::ComputeFn run = [&](runtime::ComputeContext&) {
    done = own_.coder->sum(stream_, call.vector, messages, values(0, call.vector));
  };
  co_await rt_.compute(work, std::move(run), 1, "decode on GPU");
  own_.coder->stats.decode_ns += rt_.now() - began;
  co_return done;
}

Task<Status> DeviceSumBase::sum_coded(const DeviceCall& call) {
  TR_CO_RETURN_IF_ERROR(co_await encode(call));
  TR_CO_ASSIGN_OR_RETURN(Messages messages, co_await trade(call));
  TR_CO_RETURN_IF_ERROR(co_await decode(call, std::move(messages)));
  co_return co_await let_go(call);
}

}  // namespace trireme::comm
