#include "trireme/comm/host_ops.h"

#include <algorithm>
#include <array>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "trireme/comm/copy.h"
#include "trireme/comm/lone_ops.h"
#include "trireme/comm/node_pieces.h"

namespace trireme::comm {
namespace {

using exec::HostCall;
using runtime::Task;

Result<Call> call_of(const HostCall& host, std::uint32_t num_shards) {
  const op::Attrs& attrs = host.node.attrs;
  const std::int64_t slot = attrs.get_int("slot");
  // The last slot is the group's own.
  if (slot < 0 || slot >= std::numeric_limits<std::uint16_t>::max())
    return error(Code::kInvalid,
                 "[comm] node '{}' has no slot: got {}, expected 0..65534; number the slots in the plan",
                 host.node.name, slot);
  Call call;
  call.step = static_cast<std::uint32_t>(host.run);  // calls under way are never 2^32 runs apart
  call.num_shards = num_shards;
  call.iteration = static_cast<std::uint16_t>(host.iteration);
  call.slot = static_cast<std::uint16_t>(slot);
  call.label = attrs.get_text("label");
  if (call.label.empty()) call.label = host.node.name;
  return call;
}

// As long as it lives, a cancelled run fails the group.
class Withdrawal {
 public:
  Withdrawal(Group& group, const HostCall& host)
      : group_(group),
        token_(host.cancel),
        what_(fmt::format("{} '{}'", host.node.def->name, host.node.name)) {
    id_ = token_.on_cancel(
        [this] { group_.fail(what_, fmt::format("its run ended before: {}", token_.reason().message())); });
  }
  Withdrawal(const Withdrawal&) = delete;
  Withdrawal& operator=(const Withdrawal&) = delete;
  ~Withdrawal() { token_.forget(id_); }

 private:
  Group& group_;
  runtime::CancelToken token_;
  const std::string what_;
  std::uint64_t id_ = 0;
};

// Memory that calls use one after the other: as much as is needed at once, kept between runs.
class Scratch {
 public:
  // Goes back when it is destroyed.
  class Lent {
   public:
    Lent(Scratch& owner, Tensor memory, const TensorType& type)
        : owner_(&owner), memory_(std::move(memory)), tensor_(memory_.buffer(), type) {}
    Lent(Lent&& other) noexcept
        : owner_(other.owner_),
          memory_(std::exchange(other.memory_, {})),
          tensor_(std::move(other.tensor_)) {}
    Lent& operator=(Lent&&) = delete;
    ~Lent() {
      if (!memory_.is_null() && !memory_.is_phantom()) owner_->free_.push_back(std::move(memory_));
    }
    const Tensor& tensor() const { return tensor_; }

   private:
    Scratch* owner_;
    Tensor memory_, tensor_;
  };

  // The smallest free piece that is large enough, or a new one. Without storage where it is for a phantom.
  Result<Lent> lend(const TensorType& type, bool phantom) {
    const TensorType bytes{DType::kU8, {static_cast<std::int64_t>(type.num_bytes())}};
    if (phantom) return Lent(*this, Tensor(Buffer::phantom(cpu_device(), bytes.num_bytes()), bytes), type);
    auto best = free_.end();
    for (auto it = free_.begin(); it != free_.end(); ++it)
      if (it->type().num_bytes() >= bytes.num_bytes() &&
          (best == free_.end() || it->type().num_bytes() < best->type().num_bytes()))
        best = it;
    Tensor memory;
    if (best == free_.end()) {
      TR_ASSIGN_OR_RETURN(memory, Tensor::allocate(cpu_device(), bytes));
    } else {
      memory = std::move(*best);
      free_.erase(best);
    }
    return Lent(*this, std::move(memory), type);
  }

 private:
  std::vector<Tensor> free_;
};

// One op of the family, as a plain function over a group.
using Run = Task<Status> (*)(Group& group, Scratch& scratch, Call call, const HostCall& host);

Task<Status> allreduce(Group& group, Scratch& /*scratch*/, Call call, const HostCall& host) {
  call.algorithm = "fixed-tree";  // the same bits over every transport
  if (host.node.attrs.get_text("reduction") == "max") call.reduction = collective::Reduction::kMax;
  copy_input(host.inputs[0], host.outputs[0]);
  return group.allreduce(std::move(call), host.outputs[0]);
}

Task<Status> broadcast(Group& group, Scratch& /*scratch*/, Call call, const HostCall& host) {
  call.root = static_cast<int>(host.node.attrs.get_int("root"));
  copy_input(host.inputs[0], host.outputs[0]);
  return group.broadcast(std::move(call), host.outputs[0]);
}

Task<Status> allgather(Group& group, Scratch& scratch, Call call, const HostCall& host) {
  const Tensor &piece = host.inputs[0], &whole = host.outputs[0];
  TR_CO_ASSIGN_OR_RETURN(const PieceSpans pieces, pieces_of(group, host, whole, piece));
  if (!host.node.attrs.get_ints("sizes").empty()) call.counts = pieces.counts();
  if (pieces.are_packed()) co_return co_await group.allgather(std::move(call), piece, whole);
  TR_CO_ASSIGN_OR_RETURN(const Scratch::Lent packed, scratch.lend(whole.type(), whole.is_phantom()));
  std::byte* at = packed.tensor().raw();
  if (at != nullptr) copy_bytes(at + pieces.in_packed(group.rank()), piece.raw(), piece.type().num_bytes());
  TR_CO_RETURN_IF_ERROR(co_await group.allgather(std::move(call), Tensor(), packed.tensor()));
  if (at != nullptr) pieces.unpack(at, whole.raw());
  co_return Status();
}

Task<Status> reduce_scatter(Group& group, Scratch& scratch, Call call, const HostCall& host) {
  const Tensor &whole = host.inputs[0], &piece = host.outputs[0];
  TR_CO_ASSIGN_OR_RETURN(const PieceSpans pieces, pieces_of(group, host, whole, piece));
  if (!host.node.attrs.get_ints("sizes").empty()) call.counts = pieces.counts();
  call.algorithm = "fixed-tree";
  TR_CO_ASSIGN_OR_RETURN(const Scratch::Lent packed,  // the input stays as it is
                         scratch.lend(whole.type(), whole.is_phantom()));
  std::byte* at = packed.tensor().raw();
  if (at != nullptr) pieces.pack(whole.raw(), at);
  TR_CO_RETURN_IF_ERROR(co_await group.reduce_scatter(std::move(call), packed.tensor(), Tensor()));
  if (at != nullptr) copy_bytes(piece.raw(), at + pieces.in_packed(group.rank()), piece.type().num_bytes());
  co_return Status();
}

Task<Status> all_to_all(Group& group, Scratch& scratch, Call call, const HostCall& host) {
  const Tensor &in = host.inputs[0], &out = host.outputs[0];
  TR_CO_ASSIGN_OR_RETURN(const Turned turned, turned_of(group, host));
  const PieceSpans &from = turned.from, &to = turned.to;
  const int world = group.world();
  if (turned.have_sizes) {
    for (int source = 0; source < world; ++source)
      for (int target = 0; target < world; ++target) call.counts.push_back(turned.elems(source, target));
  }
  TR_CO_ASSIGN_OR_RETURN(const Scratch::Lent sent, scratch.lend(in.type(), in.is_phantom()));
  TR_CO_ASSIGN_OR_RETURN(const Scratch::Lent received, scratch.lend(out.type(), out.is_phantom()));
  if (sent.tensor().raw() != nullptr) to.pack(in.raw(), sent.tensor().raw());
  TR_CO_RETURN_IF_ERROR(co_await group.all_to_all(std::move(call), sent.tensor(), received.tensor()));
  if (out.raw() != nullptr) from.unpack(received.tensor().raw(), out.raw());
  co_return Status();
}

Task<Status> halo_exchange(Group& group, Scratch& scratch, Call call, const HostCall& host) {
  TR_CO_ASSIGN_OR_RETURN(const Halo halo, halo_of(group, host));
  const Tensor &in = host.inputs[0], &out = host.outputs[0];
  const Along& along = halo.pieces.along;
  const int rank = group.rank();
  const std::int64_t first = halo.pieces.start(rank), own = halo.pieces.size(rank);
  const std::int64_t begin = halo.begins[static_cast<std::size_t>(rank)], window = out.shape()[along.dim];
  call.edges = halo.edges();
  std::vector<Scratch::Lent> lent;
  std::vector<Tensor> sent, received;
  std::vector<Halo::Indices> places;  // of what is received
  for (const collective::Edge& e : call.edges) {
    if (e.from != rank && e.to != rank) continue;
    TR_CO_ASSIGN_OR_RETURN(Scratch::Lent memory, scratch.lend({in.dtype(), {e.count}}, in.is_phantom()));
    const Halo::Indices shared = halo.shared(e.from, e.to);
    (e.from == rank ? sent : received).push_back(memory.tensor());
    if (e.to == rank) places.push_back(shared);
    if (e.from == rank && in.raw() != nullptr)
      along.copy(in.raw(), {own, shared.begin - first}, memory.tensor().raw(), {shared.count(), 0},
                 shared.count());
    lent.push_back(std::move(memory));
  }
  if (out.raw() != nullptr) {
    fill_with(out, static_cast<float>(host.node.attrs.get_float("fill")));
    const Halo::Indices kept = halo.shared(rank, rank);
    along.copy(in.raw(), {own, kept.begin - first}, out.raw(), {window, kept.begin - begin}, kept.count());
  }
  if (call.edges.empty()) co_return Status();
  TR_CO_RETURN_IF_ERROR(co_await group.neighbours(std::move(call), sent, received));
  if (out.raw() == nullptr) co_return Status();
  for (std::size_t i = 0; i < places.size(); ++i)
    along.copy(received[i].raw(), {places[i].count(), 0}, out.raw(), {window, places[i].begin - begin},
               places[i].count());
  co_return Status();
}

Task<Status> send(Group& group, Scratch& /*scratch*/, Call call, const HostCall& host) {
  write_token(host);
  return group.send(std::move(call), static_cast<int>(host.node.attrs.get_int("peer")), host.inputs[0]);
}

Task<Status> recv(Group& group, Scratch& /*scratch*/, Call call, const HostCall& host) {
  return group.recv(std::move(call), static_cast<int>(host.node.attrs.get_int("peer")), host.outputs[0]);
}

struct Row {
  const char* name;  // of the op
  Run run;
  Alone alone;
};
constexpr std::array<Row, 8> kRows{{{"all_to_all", all_to_all, turn_own},
                                    {"allgather", allgather, repeat_own},
                                    {"allreduce", allreduce, keep_own},
                                    {"broadcast", broadcast, keep_own},
                                    {"halo_exchange", halo_exchange, keep_own_window},
                                    {"recv", recv, receive_ones},
                                    {"reduce_scatter", reduce_scatter, take_own_piece},
                                    {"send", send, send_to_nobody}}};

Status no_such_axis(const HostCall& host) {
  return error(Code::kInvalid,
               "[comm] node '{}' is an exchange along axis '{}': got an axis that the host ops do not have; "
               "run the graph with host ops of a mesh that has it",
               host.node.name, host.node.attrs.get_text("axis"));
}

class GroupOp final : public exec::HostOp {
 public:
  GroupOp(const std::map<std::string, Group*>& groups, const std::map<std::string, AxisExchange*>& on_device,
          Scratch& scratch, std::uint32_t num_shards, Run run)
      : groups_(groups), on_device_(on_device), scratch_(scratch), num_shards_(num_shards), run_(run) {}
  bool takes_device(const graph::Node& node) const override {
    const auto found = on_device_.find(node.attrs.get_text("axis"));
    return found != on_device_.end() && found->second->takes(node);
  }
  Task<Status> start(HostCall host) override {
    const auto found = groups_.find(host.node.attrs.get_text("axis"));
    if (found == groups_.end()) co_return no_such_axis(host);
    Group& group = *found->second;
    TR_CO_ASSIGN_OR_RETURN(Call call, call_of(host, num_shards_));
    const Withdrawal withdrawal(group, host);
    const bool there = !host.inputs.empty() && host.inputs[0].buffer().device().kind() == DeviceKind::kCuda;
    AxisExchange* const exchange = there ? on_device_.at(found->first) : nullptr;
    Task<Status> task = exchange != nullptr ? exchange->run(std::move(call), host)
                                            : run_(group, scratch_, std::move(call), host);
    co_return co_await task;
  }

 private:
  const std::map<std::string, Group*> groups_;            // by axis; "": all ranks
  const std::map<std::string, AxisExchange*> on_device_;  // by axis
  Scratch& scratch_;
  const std::uint32_t num_shards_;
  const Run run_;
};

class LoneOp final : public exec::HostOp {
 public:
  LoneOp(const std::map<std::string, int>& places, Alone alone) : places_(places), alone_(alone) {}
  Task<Status> start(HostCall host) override {
    const auto found = places_.find(host.node.attrs.get_text("axis"));
    if (found == places_.end()) co_return no_such_axis(host);
    const bool phantom = !host.outputs.empty() && host.outputs[0].is_phantom();
    if (!phantom) alone_(found->second, host);
    co_return Status();
  }

 private:
  const std::map<std::string, int> places_;  // by axis; "": among all ranks
  const Alone alone_;
};

template <typename Op>
class OpTable final : public HostOpTable {
 public:
  template <typename Make>
  explicit OpTable(Make make) {
    for (const Row& row : kRows) ops_.push_back(make(row, scratch_));
  }
  exec::HostOps table() override {
    exec::HostOps table;
    for (std::size_t i = 0; i < kRows.size(); ++i) table.emplace(kRows[i].name, &ops_[i]);
    return table;
  }

 private:
  Scratch scratch_;
  std::vector<Op> ops_;
};

}  // namespace

bool has_host_op(std::string_view op) {
  return std::any_of(kRows.begin(), kRows.end(), [op](const Row& row) { return row.name == op; });
}

std::unique_ptr<HostOpTable> make_host_ops(Group& group, std::uint32_t num_shards,
                                           std::map<std::string, Group*> axes,
                                           std::map<std::string, AxisExchange*> on_device) {
  axes.emplace("", &group);
  return std::make_unique<OpTable<GroupOp>>([&](const Row& row, Scratch& scratch) {
    return GroupOp(axes, on_device, scratch, num_shards, row.run);
  });
}

std::unique_ptr<HostOpTable> make_lone_host_ops(int rank, std::map<std::string, int> places) {
  places.emplace("", rank);
  return std::make_unique<OpTable<LoneOp>>(
      [&places](const Row& row, Scratch&) { return LoneOp(places, row.alone); });
}

}  // namespace trireme::comm
