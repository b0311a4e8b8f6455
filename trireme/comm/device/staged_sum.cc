// The method of a DeviceSum with a codec whose messages pass through the host: only encoded bytes do.
#include <algorithm>
#include <numeric>

#include "trireme/comm/device/device_parts.h"
#include "trireme/comm/sum/coded_work.h"
#include "trireme/kernel/cuda/cuda.h"

namespace trireme::comm {

namespace gpu = kernel::cuda;
using runtime::Task;

namespace {

enum SetupStep : std::uint32_t { kStage = 32 };

// Memory of the host that the GPU copies from and to, page-locked where that can be.
struct Stage {
  Tensor bytes;
  std::shared_ptr<void> locked;
  Status make(gpu::CudaDevice& device, std::size_t size) {
    const auto n = static_cast<std::int64_t>(std::max<std::size_t>(size, 1));
    TR_ASSIGN_OR_RETURN(bytes, Tensor::allocate(cpu_device(), {DType::kU8, {n}}));
    locked = gpu::lock_pages(device, bytes.raw(), bytes.type().num_bytes());
    return {};
  }
};

class StagedSum final : public DeviceSumBase {
 public:
  StagedSum(runtime::Runtime& rt, Group& group, const DeviceSumOptions& options, OwnParts own,
            Buffer messages, Stage out, Stage in)
      : DeviceSumBase(rt, group, options, std::move(own)),
        messages_(std::move(messages)),
        out_(std::move(out)),
        in_(std::move(in)) {}

  std::string_view method() const override { return "staged"; }
  std::shared_ptr<void> keep_mapped() const override { return nullptr; }

 private:
  // Values as they are, as messages of their own kind.
  Task<Status> sum_now(const DeviceCall& call) override { return sum_coded(call); }

  std::byte* at(std::size_t shard, std::size_t vector) const {
    return messages_.data() + shard * own_.coder->room(vector);
  }
  std::byte* message_at(std::size_t shard, std::size_t vector) override {
    return at(static_cast<std::size_t>(own_run().first) + shard, vector);
  }

  // Between the GPU and a stage, waiting.
  Status copy(std::byte* there, std::byte* here, std::size_t bytes, bool up) {
    const Buffer gpu_side = Buffer::wrap(*options_.device, there, bytes);
    const Buffer host_side = Buffer::wrap(cpu_device(), here, bytes);
    return up ? stream_.copy(host_side, gpu_side) : stream_.copy(gpu_side, host_side);
  }

  Status fetch_own(std::size_t vector) {
    std::size_t to = 0;
    for (std::size_t s = 0; s < lengths_.size(); ++s) {
      TR_RETURN_IF_ERROR(copy(message_at(s, vector), out_.bytes.raw() + to, lengths_[s], false));
      to += lengths_[s];
    }
    return stream_.synchronize();
  }

  Status put_others(std::size_t vector, const std::vector<std::size_t>& sizes) {
    const collective::LeafRun own = own_run();
    std::size_t from = 0;
    for (std::size_t s = 0; s < sizes.size(); ++s) {
      const auto shard = static_cast<std::int32_t>(s);
      if (shard < own.first || shard >= own.first + own.count)
        TR_RETURN_IF_ERROR(copy(at(s, vector), in_.bytes.raw() + from, sizes[s], true));
      from += sizes[s];
    }
    return stream_.synchronize();
  }

  // The lengths of all shards' messages.
  Task<Result<std::vector<std::size_t>>> share_lengths(const DeviceCall& call) {
    const bool fixed = own_.coder->is_fixed() || !own_.coder->encodes_at(call.step);
    std::vector<std::size_t> all(static_cast<std::size_t>(options_.num_leaves), lengths_.front());
    if (fixed) co_return all;
    const TensorType own_type{DType::kI64, {static_cast<std::int64_t>(lengths_.size())}};
    const TensorType all_type{DType::kI64, {options_.num_leaves}};
    TR_CO_ASSIGN_OR_RETURN(const Tensor mine, Tensor::allocate(cpu_device(), own_type));
    TR_CO_ASSIGN_OR_RETURN(const Tensor everybodys, Tensor::allocate(cpu_device(), all_type));
    std::copy(lengths_.begin(), lengths_.end(), mine.data<std::int64_t>());
    Call lengths = call_of(call, call.done_slot, ", sizes");
    for (const collective::LeafRun& run : options_.leaf_runs) lengths.counts.push_back(run.count);
    TR_CO_RETURN_IF_ERROR(co_await group_.allgather(std::move(lengths), mine, everybodys));
    const auto least = static_cast<std::int64_t>(own_.coder->least_length(call.vector)),
               most = static_cast<std::int64_t>(own_.coder->room(call.vector) - gpu::kMessageSlack);
    for (std::size_t s = 0; s < all.size(); ++s) {
      const std::int64_t n = everybodys.data<std::int64_t>()[s];
      if (n < least || n > most)
        co_return error(Code::kCorrupt, "[comm] the length of an encoding: got {}, expected {} to {}", n,
                        least, most);
      all[s] = static_cast<std::size_t>(n);
    }
    co_return all;
  }

  static Call call_of(const DeviceCall& call, std::uint16_t slot, const char* what) {
    Call out;
    out.step = call.step;
    out.slot = slot;
    out.label = call.label + what;
    return out;
  }

  Task<Result<Messages>> trade(const DeviceCall& call) override {
    Messages out;
    for (std::int32_t s = 0; s < options_.num_leaves; ++s)
      out.push_back(at(static_cast<std::size_t>(s), call.vector));
    const std::size_t own_bytes = std::accumulate(lengths_.begin(), lengths_.end(), std::size_t{0});
    Status copied;
    runtime::ComputeFn down = [&](runtime::ComputeContext&) { copied = fetch_own(call.vector); };
    const cost::OpCost work{.bytes = static_cast<double>(own_bytes)};
    co_await rt_.compute(work, std::move(down), 1, "messages to the host");
    TR_CO_RETURN_IF_ERROR(copied);
    TR_CO_ASSIGN_OR_RETURN(const std::vector<std::size_t> sizes, co_await share_lengths(call));
    Call gather = call_of(call, call.ready_slot, "");
    for (const collective::LeafRun& run : options_.leaf_runs) {
      const auto first = sizes.begin() + run.first;
      gather.counts.push_back(
          static_cast<std::int64_t>(std::accumulate(first, first + run.count, std::size_t{0})));
    }
    const std::size_t all_bytes = std::accumulate(sizes.begin(), sizes.end(), std::size_t{0});
    const Tensor mine = first_bytes(out_.bytes, own_bytes), all = first_bytes(in_.bytes, all_bytes);
    TR_CO_RETURN_IF_ERROR(co_await group_.allgather(std::move(gather), mine, all));
    runtime::ComputeFn up = [&](runtime::ComputeContext&) { copied = put_others(call.vector, sizes); };
    const cost::OpCost more{.bytes = static_cast<double>(all_bytes)};
    co_await rt_.compute(more, std::move(up), 1, "messages to the GPU");
    TR_CO_RETURN_IF_ERROR(copied);
    co_return out;
  }
  Task<Status> let_go(const DeviceCall&) override { co_return Status(); }

  const Buffer messages_;  // of all shards, own ones where they are made
  const Stage out_, in_;
};

}  // namespace

Task<Result<std::unique_ptr<DeviceSum>>> make_staged_sum(runtime::Runtime& rt, Group& group,
                                                         const DeviceSumOptions& options) {
  gpu::CudaDevice& device = *gpu::as_cuda(options.device.get());
  const collective::LeafRun run = options.leaf_runs[static_cast<std::size_t>(group.rank())];
  OwnParts own;
  Buffer messages;
  Stage out, in;
  const auto make = [&]() -> Status {
    TR_ASSIGN_OR_RETURN(own.layout, ShardLayout::make(options, false));
    TR_ASSIGN_OR_RETURN(own.coder, DeviceCoder::make(options, group.rank()));
    const std::size_t bytes = own.layout.shard_bytes * static_cast<std::size_t>(run.count);
    TR_ASSIGN_OR_RETURN(own.memory, options.device->allocate(bytes));
    const std::size_t room = own.coder->largest_room(), leaves = static_cast<std::size_t>(options.num_leaves);
    TR_ASSIGN_OR_RETURN(messages, options.device->allocate(leaves * room));
    TR_RETURN_IF_ERROR(out.make(device, static_cast<std::size_t>(run.count) * room));
    return in.make(device, leaves * room);
  };
  TR_CO_RETURN_IF_ERROR(co_await agree_on(group, options.setup_slot, kStage, make()));
  co_return std::unique_ptr<DeviceSum>(std::make_unique<StagedSum>(
      rt, group, options, std::move(own), std::move(messages), std::move(out), std::move(in)));
}

}  // namespace trireme::comm
