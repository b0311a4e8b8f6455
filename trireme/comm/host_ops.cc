#include "trireme/comm/host_ops.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "trireme/op/detail/dispatch.h"

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

// Collectives work in place: the output starts as the input.
void copy_input(const Tensor& from, const Tensor& to) {
  if (from.is_phantom() || to.is_phantom() || from.raw() == to.raw()) return;
  copy_to_contiguous(from, to);
}

// The number of bytes handed over.
void write_token(const HostCall& host) {
  if (!host.outputs[0].is_phantom())
    *host.outputs[0].data<std::int64_t>() = static_cast<std::int64_t>(host.inputs[0].type().num_bytes());
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

// One op of the family, as a plain function over a group.
using Run = Task<Status> (*)(Group& group, Call call, const HostCall& host);

Task<Status> allreduce(Group& group, Call call, const HostCall& host) {
  call.algorithm = "fixed-tree";  // the same bits over every transport
  copy_input(host.inputs[0], host.outputs[0]);
  return group.allreduce(std::move(call), host.outputs[0]);
}

Task<Status> broadcast(Group& group, Call call, const HostCall& host) {
  call.root = static_cast<int>(host.node.attrs.get_int("root"));
  copy_input(host.inputs[0], host.outputs[0]);
  return group.broadcast(std::move(call), host.outputs[0]);
}

Task<Status> allgather(Group& group, Call call, const HostCall& host) {
  return group.allgather(std::move(call), host.inputs[0], host.outputs[0]);
}

Task<Status> reduce_scatter(Group& group, Call call, const HostCall& host) {
  call.algorithm = "fixed-tree";
  return group.reduce_scatter(std::move(call), host.inputs[0], host.outputs[0]);
}

Task<Status> send(Group& group, Call call, const HostCall& host) {
  write_token(host);
  return group.send(std::move(call), static_cast<int>(host.node.attrs.get_int("peer")), host.inputs[0]);
}

Task<Status> recv(Group& group, Call call, const HostCall& host) {
  return group.recv(std::move(call), static_cast<int>(host.node.attrs.get_int("peer")), host.outputs[0]);
}

// What the op gives where no other rank takes part.
using Alone = void (*)(int rank, const HostCall& host);

void keep_own(int /*rank*/, const HostCall& host) { copy_input(host.inputs[0], host.outputs[0]); }

void repeat_own(int /*rank*/, const HostCall& host) {
  const std::size_t piece = host.inputs[0].type().num_bytes(), all = host.outputs[0].type().num_bytes();
  for (std::size_t at = 0; at < all; at += piece)
    std::memcpy(host.outputs[0].raw() + at, host.inputs[0].raw(), piece);
}

void take_own_piece(int rank, const HostCall& host) {
  const std::size_t piece = host.outputs[0].type().num_bytes();
  std::memcpy(host.outputs[0].raw(), host.inputs[0].raw() + static_cast<std::size_t>(rank) * piece, piece);
}

void send_to_nobody(int /*rank*/, const HostCall& host) { write_token(host); }

// Indices and flags are 0.
void receive_ones(int /*rank*/, const HostCall& host) {
  const Tensor& out = host.outputs[0];
  std::memset(out.raw(), 0, out.type().num_bytes());
  if (!is_floating(out.dtype())) return;
  op::detail::dispatch_float(out.dtype(), [&out]<typename T>() {
    for (T& value : out.values<T>()) value = static_cast<T>(1.0F);
  });
}

struct Row {
  const char* name;  // of the op
  Run run;
  Alone alone;
};
constexpr std::array<Row, 6> kRows{{{"allgather", allgather, repeat_own},
                                    {"allreduce", allreduce, keep_own},
                                    {"broadcast", broadcast, keep_own},
                                    {"recv", recv, receive_ones},
                                    {"reduce_scatter", reduce_scatter, take_own_piece},
                                    {"send", send, send_to_nobody}}};

class GroupOp final : public exec::HostOp {
 public:
  GroupOp(Group& group, std::uint32_t num_shards, Run run)
      : group_(group), num_shards_(num_shards), run_(run) {}
  Task<Status> start(HostCall host) override {
    TR_CO_ASSIGN_OR_RETURN(Call call, call_of(host, num_shards_));
    const Withdrawal withdrawal(group_, host);
    Task<Status> task = run_(group_, std::move(call), host);
    co_return co_await task;
  }

 private:
  Group& group_;
  const std::uint32_t num_shards_;
  const Run run_;
};

class LoneOp final : public exec::HostOp {
 public:
  LoneOp(int rank, Alone alone) : rank_(rank), alone_(alone) {}
  Task<Status> start(HostCall host) override {
    const bool phantom = !host.outputs.empty() && host.outputs[0].is_phantom();
    if (!phantom) alone_(rank_, host);
    co_return Status();
  }

 private:
  const int rank_;
  const Alone alone_;
};

template <typename Op>
class OpTable final : public HostOpTable {
 public:
  template <typename Make>
  explicit OpTable(Make make) {
    for (const Row& row : kRows) ops_.push_back(make(row));
  }
  exec::HostOps table() override {
    exec::HostOps table;
    for (std::size_t i = 0; i < kRows.size(); ++i) table.emplace(kRows[i].name, &ops_[i]);
    return table;
  }

 private:
  std::vector<Op> ops_;
};

}  // namespace

bool has_host_op(std::string_view op) {
  return std::any_of(kRows.begin(), kRows.end(), [op](const Row& row) { return row.name == op; });
}

std::unique_ptr<HostOpTable> make_host_ops(Group& group, std::uint32_t num_shards) {
  return std::make_unique<OpTable<GroupOp>>(
      [&](const Row& row) { return GroupOp(group, num_shards, row.run); });
}

std::unique_ptr<HostOpTable> make_lone_host_ops(int rank) {
  return std::make_unique<OpTable<LoneOp>>([rank](const Row& row) { return LoneOp(rank, row.alone); });
}

}  // namespace trireme::comm
