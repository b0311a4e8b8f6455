#include "trireme/comm/device/axis_exchange.h"

#include <algorithm>
#include <array>
#include <map>

#include "trireme/comm/calls.h"
#include "trireme/comm/device/deal.h"
#include "trireme/comm/device/device_parts.h"
#include "trireme/comm/device/nccl_parts.h"

namespace trireme::comm {

namespace gpu = kernel::cuda;
using exec::HostCall;
using runtime::Task;
using Sources = std::vector<const std::byte*>;

namespace {

// Steps of the setup slot.
enum SetupStep : std::uint32_t { kRooms, kGpus, kMap };  // kMap and the two behind it

// Meetings of a node's call: one per deal, one at the end.
constexpr int kMeetings = 4;

// What a node needs of memory, and where it is.
struct Room {
  std::size_t outbox = 0, inbox = 0;  // bytes of a run
};
using Rooms = std::map<std::uint16_t, Room>;  // by slot

// Where the outbox of a node begins in the memory of a rank: in the order of slots, all runs behind each
// other.
using Places = std::map<std::uint16_t, std::size_t>;
std::size_t place_all(const std::vector<std::uint16_t>& slots, const std::vector<std::size_t>& bytes,
                      int runs, Places& places) {
  std::size_t end = 0;
  for (std::size_t i = 0; i < slots.size(); ++i) {
    places[slots[i]] = end;
    end += portion_room(bytes[i]) * static_cast<std::size_t>(runs);
  }
  return end;
}

Tensor without_memory(const TensorType& type) {
  return Tensor(Buffer::phantom(cpu_device(), std::max<std::size_t>(type.num_bytes(), 1)), type);
}

bool is_along(const graph::Node& node, std::string_view axis) {
  return node.def->has(op::kHostOp) && node.attrs.find("axis") != nullptr &&
         node.attrs.get_text("axis") == axis && can_deal(node);
}

// Nodes of several graphs with one slot are never under way together.
Result<Rooms> rooms_of(const Group& group, const AxisExchangeOptions& options, bool in_two) {
  Rooms rooms;
  for (const graph::Graph* graph : options.graphs)
    for (std::int32_t id = 0; id < graph->size(); ++id) {
      const graph::Node& node = graph->node(id);
      if (!is_along(node, options.axis)) continue;
      const std::array<Tensor, 1> in{without_memory(graph->type(node.inputs[0]))};
      const std::array<Tensor, 1> out{without_memory(node.outputs[0])};
      const HostCall host{.node = node, .inputs = in, .outputs = out, .cancel = {}};
      TR_ASSIGN_OR_RETURN(const std::vector<Deal> deals, deals_of(group, host, {}, in_two));
      Room& room = rooms[static_cast<std::uint16_t>(node.attrs.get_int("slot"))];
      for (const Deal& deal : deals) {
        room.outbox = std::max(room.outbox, deal.outbox_bytes());
        room.inbox = std::max(room.inbox, deal.inbox_bytes(group.rank()));
      }
    }
  return rooms;
}

// What both methods share: outboxes, streams, kernels, meetings.
class ExchangeBase : public AxisExchange {
 public:
  struct Parts {
    AxisExchangeOptions options;
    Rooms rooms;
    Places own;
    Buffer memory;  // outboxes
    std::unique_ptr<gpu::VectorSum> sum, larger;
  };

  ExchangeBase(runtime::Runtime& rt, Group& group, Parts parts)
      : rt_(rt), group_(group), parts_(std::move(parts)) {}

  bool takes(const graph::Node& node) const override {
    return is_along(node, parts_.options.axis) &&
           parts_.rooms.contains(static_cast<std::uint16_t>(node.attrs.get_int("slot")));
  }

  double bytes_sent() const override { return bytes_sent_; }

  Task<Status> run(Call call, const HostCall& host) override {
    const DealKernels kernels{parts_.sum.get(), parts_.larger.get()};
    TR_CO_ASSIGN_OR_RETURN(const std::vector<Deal> deals, deals_of(group_, host, kernels, sums_in_two()));
    TR_CO_RETURN_IF_ERROR(fits(host, deals));
    std::byte* const outbox = parts_.memory.data() + outbox_at(parts_.own, call);
    call.iteration = static_cast<std::uint16_t>(call.iteration * kMeetings);
    const double bytes = static_cast<double>(host.inputs[0].type().num_bytes());
    for (const Deal& deal : deals) {
      TR_CO_RETURN_IF_ERROR(
          co_await on_gpu(bytes, [&](gpu::KernelStream& stream) { return deal.pack(stream, outbox); }));
      TR_CO_ASSIGN_OR_RETURN(const Sources from, co_await trade(call, deal, outbox));
      TR_CO_RETURN_IF_ERROR(
          co_await on_gpu(bytes, [&](gpu::KernelStream& stream) { return deal.finish(stream, from); }));
      ++call.iteration;
      for (int r = 0; r < group_.world(); ++r)
        if (r != group_.rank())
          bytes_sent_ += static_cast<double>(deal.out[static_cast<std::size_t>(r)].bytes);
    }
    co_return co_await let_go(call);
  }

 protected:
  virtual bool sums_in_two() const = 0;
  // All ranks have packed. Yields where portions are.
  virtual Task<Result<Sources>> trade(const Call& call, const Deal& deal, std::byte* outbox) = 0;
  virtual Task<Status> let_go(const Call& call) = 0;  // the outbox will be used again

  // Where the outbox of this call's run begins, in the memory of a rank with these places.
  std::size_t outbox_at(const Places& places, const Call& call) const {
    return places.at(call.slot) + copy_of(call) * room_in(places, call.slot);
  }
  std::size_t copy_of(const Call& call) const {
    return call.step % call.num_shards % static_cast<std::size_t>(parts_.options.runs_at_once);
  }
  // Bytes of a node's outbox of a run, where it has those places.
  virtual std::size_t room_in(const Places& places, std::uint16_t slot) const = 0;

  Task<Status> meet(const Call& call) {
    Call barrier;
    barrier.step = call.step;
    barrier.num_shards = call.num_shards;
    barrier.iteration = call.iteration;
    barrier.slot = call.slot;
    barrier.label = call.label;
    co_return co_await group_.barrier(std::move(barrier));
  }

  runtime::Runtime& rt_;
  Group& group_;
  const Parts parts_;

 private:
  // The graph is one of those that rooms were made for.
  Status fits(const HostCall& host, const std::vector<Deal>& deals) const {
    const auto slot = static_cast<std::uint16_t>(host.node.attrs.get_int("slot"));
    const Room& room = parts_.rooms.at(slot);
    for (const Deal& deal : deals)
      if (deal.outbox_bytes() > room.outbox || deal.inbox_bytes(group_.rank()) > room.inbox)
        return error(Code::kInternal,
                     "[comm] node '{}': got {} bytes to exchange, expected at most {} of slot {}",
                     host.node.name, deal.outbox_bytes(), room.outbox, slot);
    return {};
  }

  // Work on a stream of its own, which it waits for, on the pool.
  template <typename Work>
  Task<Status> on_gpu(double bytes, Work work) {
    std::unique_ptr<gpu::KernelStream> stream;
    if (free_.empty()) {
      stream = gpu::make_kernel_stream(*gpu::as_cuda(parts_.options.device.get()));
    } else {
      stream = std::move(free_.back());
      free_.pop_back();
    }
    Status done;
    runtime::ComputeFn run = [&](runtime::ComputeContext&) {
      done = work(*stream);
      if (done.ok()) done = stream->synchronize();
    };
    const cost::OpCost cost{.flops = bytes, .bytes = 2 * bytes};
    co_await rt_.compute(cost, std::move(run), 1, "exchange on GPU");
    free_.push_back(std::move(stream));
    co_return done;
  }

  std::vector<std::unique_ptr<gpu::KernelStream>> free_;
  double bytes_sent_ = 0;
};

class MappedExchange final : public ExchangeBase {
 public:
  struct Peer {
    Buffer memory;
    Places places;
    std::map<std::uint16_t, std::size_t> rooms;
  };
  MappedExchange(runtime::Runtime& rt, Group& group, Parts parts, std::vector<Peer> peers)
      : ExchangeBase(rt, group, std::move(parts)), peers_(std::move(peers)) {}

  std::string_view method() const override { return "mapped"; }
  Task<Status> close() override { co_return Status(); }
  std::shared_ptr<void> keep_mapped() const override { return std::make_shared<Buffer>(parts_.memory); }

 private:
  bool sums_in_two() const override { return false; }
  std::size_t room_in(const Places& places, std::uint16_t slot) const override {
    for (const Peer& peer : peers_)
      if (&peer.places == &places) return peer.rooms.at(slot);
    return portion_room(parts_.rooms.at(slot).outbox);
  }
  Task<Result<Sources>> trade(const Call& call, const Deal& deal, std::byte* /*outbox*/) override {
    TR_CO_RETURN_IF_ERROR(co_await meet(call));
    Sources from;
    for (std::size_t r = 0; r < peers_.size(); ++r) {
      const std::byte* const at = peers_[r].memory.data() + outbox_at(peers_[r].places, call);
      from.push_back(deal.in[r].bytes == 0 ? nullptr : at + deal.in[r].offset);
    }
    co_return from;
  }
  Task<Status> let_go(const Call& call) override { return meet(call); }

  const std::vector<Peer> peers_;
};

// NCCL's calls are made one after the other, in the order in which the first rank comes to them: it numbers
// them, and the others learn the number when they meet.
class NcclExchange final : public ExchangeBase {
 public:
  NcclExchange(runtime::Runtime& rt, Group& group, Parts parts, Buffer inbox, Places inboxes,
               std::unique_ptr<NcclStream> queue, std::unique_ptr<Nccl> nccl)
      : ExchangeBase(rt, group, std::move(parts)),
        inbox_(std::move(inbox)),
        inboxes_(std::move(inboxes)),
        queue_(std::move(queue)),
        nccl_(std::move(nccl)) {}

  std::string_view method() const override { return "nccl"; }
  Task<Status> close() override { return nccl_->close(); }
  std::shared_ptr<void> keep_mapped() const override { return nullptr; }

 private:
  bool sums_in_two() const override { return true; }
  std::size_t room_in(const Places& places, std::uint16_t slot) const override {
    const Room& room = parts_.rooms.at(slot);
    return portion_room(&places == &inboxes_ ? room.inbox : room.outbox);
  }

  Task<Result<std::int64_t>> number_of(const Call& call) {
    TR_CO_ASSIGN_OR_RETURN(const Tensor number, Tensor::allocate(cpu_device(), {DType::kI64, {1}}));
    *number.data<std::int64_t>() = group_.rank() == 0 ? ++numbered_ : 0;
    Call meeting;
    meeting.step = call.step;
    meeting.num_shards = call.num_shards;
    meeting.iteration = call.iteration;
    meeting.slot = call.slot;
    meeting.label = call.label;
    meeting.reduction = collective::Reduction::kMax;
    TR_CO_RETURN_IF_ERROR(co_await group_.allreduce(std::move(meeting), number));
    co_return *number.data<std::int64_t>();
  }

  // Those with lower numbers end by their own deadlines.
  Task<void> wait_for_turn(std::int64_t number) {
    if (number == next_) co_return;
    runtime::OneShot<bool> turn(rt_);
    waiting_[number] = &turn;
    co_await turn.wait_until(kForever);
    waiting_.erase(number);
  }

  Task<Result<Sources>> trade(const Call& call, const Deal& deal, std::byte* outbox) override {
    TR_CO_ASSIGN_OR_RETURN(const std::int64_t number, co_await number_of(call));
    std::size_t at = outbox_at(inboxes_, call);
    Sources from;
    std::vector<Nccl::Message> sends, recvs;
    const auto bytes = [](const Buffer& memory, std::size_t begin, std::size_t count) {
      return Tensor(memory, {DType::kU8, {static_cast<std::int64_t>(count)}}, begin);
    };
    const auto base = static_cast<std::size_t>(outbox - parts_.memory.data());
    for (int r = 0; r < group_.world(); ++r) {
      const Portion &out = deal.out[static_cast<std::size_t>(r)], &in = deal.in[static_cast<std::size_t>(r)];
      if (r == group_.rank()) {
        from.push_back(outbox + in.offset);
        continue;
      }
      from.push_back(in.bytes == 0 ? nullptr : inbox_.data() + at);
      if (out.bytes > 0) sends.push_back({r, bytes(parts_.memory, base + out.offset, out.bytes)});
      if (in.bytes > 0) recvs.push_back({r, bytes(inbox_, at, in.bytes)});
      at += portion_room(in.bytes);
    }
    co_await wait_for_turn(number);
    std::string label = operation_text(collective::Kind::kAllToAll, call.label, time_of(call));
    const Status status = co_await nccl_->exchange(std::move(label), std::move(sends), std::move(recvs));
    ++next_;
    if (const auto found = waiting_.find(next_); found != waiting_.end()) found->second->set(true);
    if (!status.ok()) {
      if (group_.verdict().ok()) group_.fail(call.label, status.message());
      co_return status;
    }
    co_return from;
  }
  Task<Status> let_go(const Call& /*call*/) override { co_return Status(); }

  const Buffer inbox_;
  const Places inboxes_;
  const std::unique_ptr<NcclStream> queue_;
  const std::unique_ptr<Nccl> nccl_;
  std::int64_t numbered_ = 0, next_ = 1;
  std::map<std::int64_t, runtime::OneShot<bool>*> waiting_;  // by number
};

std::vector<std::uint16_t> slots_of(const Rooms& rooms) {
  std::vector<std::uint16_t> slots;
  for (const auto& [slot, room] : rooms) slots.push_back(slot);
  return slots;
}

// Memory and kernels of this rank.
Status make_parts(const Group& group, AxisExchangeOptions options, bool in_two, ExchangeBase::Parts& parts) {
  gpu::CudaDevice& device = *gpu::as_cuda(options.device.get());
  TR_ASSIGN_OR_RETURN(parts.rooms, rooms_of(group, options, in_two));
  std::vector<std::size_t> bytes;
  for (const auto& [slot, room] : parts.rooms) bytes.push_back(room.outbox);
  const std::size_t all = place_all(slots_of(parts.rooms), bytes, options.runs_at_once, parts.own);
  TR_ASSIGN_OR_RETURN(parts.memory, gpu::allocate_shareable(device, std::max<std::size_t>(all, 1)));
  const std::vector<gpu::Addition> order = tree_additions({0, group.world()}, group.world());
  TR_ASSIGN_OR_RETURN(parts.sum, gpu::make_vector_sum(device, group.world(), order, 1));
  TR_ASSIGN_OR_RETURN(parts.larger, gpu::make_vector_sum(device, group.world(), order, 1, true));
  parts.options = std::move(options);
  return {};
}

Task<Status> make_parts_on_pool(runtime::Runtime& rt, const Group& group, const AxisExchangeOptions& options,
                                bool in_two, ExchangeBase::Parts& parts) {
  Status made;
  runtime::ComputeFn make = [&](runtime::ComputeContext&) {
    made = make_parts(group, options, in_two, parts);
  };
  const cost::OpCost work{.flops = 1e8, .bytes = 1e7};
  co_await rt.compute(work, std::move(make), 1, "share GPU memory");
  co_return made;
}

// The sizes of everybody's outboxes: pieces differ where a dimension does not divide.
Task<Result<std::vector<std::vector<std::size_t>>>> tell_rooms(Group& group, std::uint16_t setup_slot,
                                                               const Rooms& rooms) {
  const auto n = static_cast<std::int64_t>(rooms.size());
  std::vector<std::vector<std::size_t>> told(static_cast<std::size_t>(group.world()));
  if (n == 0) co_return told;
  TR_CO_ASSIGN_OR_RETURN(const Tensor mine, Tensor::allocate(cpu_device(), {DType::kI64, {n}}));
  TR_CO_ASSIGN_OR_RETURN(const Tensor all,
                         Tensor::allocate(cpu_device(), {DType::kI64, {n * group.world()}}));
  std::int64_t* to = mine.data<std::int64_t>();
  for (const auto& [slot, room] : rooms) *to++ = static_cast<std::int64_t>(room.outbox);
  Call call;
  call.step = kRooms;
  call.slot = setup_slot;
  call.label = "GPU outboxes";
  TR_CO_RETURN_IF_ERROR(co_await group.allgather(std::move(call), mine, all));
  const std::int64_t* from = all.data<std::int64_t>();
  for (auto& of_rank : told)
    for (std::int64_t i = 0; i < n; ++i) of_rank.push_back(static_cast<std::size_t>(*from++));
  co_return told;
}

Task<Result<std::unique_ptr<AxisExchange>>> make_mapped(runtime::Runtime& rt, Group& group,
                                                        const AxisExchangeOptions& options) {
  ExchangeBase::Parts parts;
  MapRequest request;
  request.made = co_await make_parts_on_pool(rt, group, options, false, parts);
  request.device = options.device;
  request.one_process = options.one_process;
  request.own = parts.memory;
  request.slot = options.setup_slot;
  request.first_step = kMap;
  TR_CO_ASSIGN_OR_RETURN(std::vector<Buffer> memories, co_await map_memories(group, std::move(request)));
  TR_CO_ASSIGN_OR_RETURN(const auto told, co_await tell_rooms(group, options.setup_slot, parts.rooms));
  const std::vector<std::uint16_t> slots = slots_of(parts.rooms);
  std::vector<MappedExchange::Peer> peers;
  for (std::size_t r = 0; r < memories.size(); ++r) {
    MappedExchange::Peer& peer = peers.emplace_back();
    peer.memory = std::move(memories[r]);
    place_all(slots, told[r], options.runs_at_once, peer.places);
    for (std::size_t i = 0; i < slots.size(); ++i) peer.rooms[slots[i]] = portion_room(told[r][i]);
  }
  co_return std::unique_ptr<AxisExchange>(
      std::make_unique<MappedExchange>(rt, group, std::move(parts), std::move(peers)));
}

Task<Result<std::unique_ptr<AxisExchange>>> make_nccl(runtime::Runtime& rt, Group& group,
                                                      const AxisExchangeOptions& options) {
  ExchangeBase::Parts parts;
  Buffer inbox;
  Places inboxes;
  Status made = co_await make_parts_on_pool(rt, group, options, true, parts);
  if (made.ok()) {
    std::vector<std::size_t> bytes;
    for (const auto& [slot, room] : parts.rooms) bytes.push_back(room.inbox);
    const std::size_t all = place_all(slots_of(parts.rooms), bytes, options.runs_at_once, inboxes);
    Result<Buffer> memory = options.device->allocate(std::max<std::size_t>(all, 1));
    made = memory.status();
    if (memory.ok()) inbox = std::move(*memory);
  }
  NcclSetup setup;
  setup.device = options.device;
  setup.library = options.nccl_library;
  setup.slot = options.setup_slot;
  setup.deadline = options.deadline;
  setup.made = made;
  TR_CO_ASSIGN_OR_RETURN(NcclLink link, co_await connect_nccl(rt, group, std::move(setup)));
  co_return std::unique_ptr<AxisExchange>(
      std::make_unique<NcclExchange>(rt, group, std::move(parts), std::move(inbox), std::move(inboxes),
                                     std::move(link.queue), std::move(link.nccl)));
}

}  // namespace

Task<Result<std::unique_ptr<AxisExchange>>> make_axis_exchange(runtime::Runtime& rt, Group& group,
                                                               AxisExchangeOptions options) {
  const bool automatic = options.method == "auto";
  bool nccl = options.method == "nccl";
  if (automatic) {
    TR_CO_ASSIGN_OR_RETURN(
        nccl, co_await have_own_gpus(group, *options.device, options.one_host, options.setup_slot, kGpus));
  }
  const auto give_up = [&](const Status& why, const char* next) {
    rt.log(fmt::format("{}; {}", why.message(), next));
  };
  if (nccl) {
    auto made = co_await make_nccl(rt, group, options);
    if (made.ok() || !automatic || !group.verdict().ok()) co_return made;
    give_up(made.status(), "activations travel without NCCL");
  }
  if (options.one_host) {
    auto made = co_await make_mapped(rt, group, options);
    if (made.ok() || !automatic || !group.verdict().ok()) co_return made;
    give_up(made.status(), "activations pass through the memory of the host");
  } else if (!automatic) {
    co_return error(
        Code::kInvalid,
        "[comm] parallel.device_collectives = \"mapped\": GPU memory is mapped by ranks of one host, "
        "and these may be on several; use parallel.transport = \"shm\", or auto");
  }
  co_return std::unique_ptr<AxisExchange>();
}

}  // namespace trireme::comm
