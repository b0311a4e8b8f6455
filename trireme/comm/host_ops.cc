#include "trireme/comm/host_ops.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "trireme/op/detail/dispatch.h"

namespace trireme::comm {
namespace {

using exec::HostCall;
using runtime::Task;

// These ops are over one group; ranks along an axis are another.
Status expect_whole_group(const HostCall& host) {
  const std::string& axis = host.node.attrs.get_text("axis");
  if (axis.empty()) return {};
  return error(
      Code::kInvalid,
      "[comm] node '{}' is an exchange along axis '{}': got an axis, expected none over one group; run "
      "the graph with host ops of a mesh",
      host.node.name, axis);
}

Result<Call> call_of(const HostCall& host, std::uint32_t num_shards) {
  TR_RETURN_IF_ERROR(expect_whole_group(host));
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

// Nothing may have no address.
void copy_some(std::byte* to, const std::byte* from, std::size_t bytes) {
  if (bytes > 0) std::memcpy(to, from, bytes);
}

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

  // The smallest free piece that is large enough, or a new one. Without storage where `like` has none.
  Result<Lent> lend(const Tensor& like) {
    const TensorType bytes{DType::kU8, {static_cast<std::int64_t>(like.type().num_bytes())}};
    if (like.is_phantom())
      return Lent(*this, Tensor(Buffer::phantom(cpu_device(), bytes.num_bytes()), bytes), like.type());
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
    return Lent(*this, std::move(memory), like.type());
  }

 private:
  std::vector<Tensor> free_;
};

// Where the pieces of the ranks lie in a whole tensor: one behind the other in each of its `outer` rows.
// Packed, as collectives need them, they lie one behind the other, each with all of its rows.
struct Pieces {
  int dim = 0;
  std::int64_t outer = 1, inner = 1;    // elements before and behind the dimension
  std::vector<std::int64_t> starts{0};  // along the dimension, and the end
  std::size_t elem_bytes = 1;

  static Pieces of(const op::Attrs& attrs, const Tensor& whole) {
    Pieces p;
    const Shape& shape = whole.shape();
    const std::int64_t given = attrs.get_int("dim"), world = attrs.get_int("world");
    p.dim = static_cast<int>(given < 0 ? given + shape.rank() : given);
    for (int d = 0; d < shape.rank(); ++d)
      if (d != p.dim) (d < p.dim ? p.outer : p.inner) *= shape[d];
    const std::vector<std::int64_t>& sizes = attrs.get_ints("sizes");
    for (std::int64_t r = 0; r < world; ++r)
      p.starts.push_back(p.starts.back() +
                         (sizes.empty() ? shape[p.dim] / world : sizes[static_cast<std::size_t>(r)]));
    p.elem_bytes = dtype_size(whole.dtype());
    return p;
  }
  int world() const { return static_cast<int>(starts.size()) - 1; }
  std::int64_t start(int rank) const { return starts[static_cast<std::size_t>(rank)]; }
  std::int64_t size(int rank) const { return start(rank + 1) - start(rank); }
  // One behind the other as they lie.
  bool are_packed() const { return outer == 1; }
  // Elements of each rank's piece.
  std::vector<std::int64_t> counts() const {
    std::vector<std::int64_t> counts;
    for (int r = 0; r < world(); ++r) counts.push_back(outer * size(r) * inner);
    return counts;
  }
  std::size_t bytes(std::int64_t elems) const { return static_cast<std::size_t>(elems) * elem_bytes; }
  // Bytes from the beginning of the whole to a piece's part of a row, and of the packed pieces to that.
  std::size_t in_whole(int rank, std::int64_t row) const {
    return bytes((row * starts.back() + start(rank)) * inner);
  }
  std::size_t in_packed(int rank, std::int64_t row) const {
    return bytes((outer * start(rank) + row * size(rank)) * inner);
  }
  void pack(const std::byte* whole, std::byte* packed) const {
    for (int r = 0; r < world(); ++r)
      for (std::int64_t row = 0; row < outer; ++row)
        copy_some(packed + in_packed(r, row), whole + in_whole(r, row), bytes(size(r) * inner));
  }
  void unpack(const std::byte* packed, std::byte* whole) const {
    for (int r = 0; r < world(); ++r)
      for (std::int64_t row = 0; row < outer; ++row)
        copy_some(whole + in_whole(r, row), packed + in_packed(r, row), bytes(size(r) * inner));
  }
};

// The graph was made for this group, and the piece is that of this rank.
Result<Pieces> pieces_of(const Group& group, const HostCall& host, const Tensor& whole, const Tensor& piece) {
  Pieces p = Pieces::of(host.node.attrs, whole);
  if (p.world() != group.world())
    return error(Code::kInvalid, "[comm] node '{}' is for {} ranks: the group has {}", host.node.name,
                 p.world(), group.world());
  if (piece.shape()[p.dim] != p.size(group.rank()))
    return error(
        Code::kInvalid,
        "[comm] node '{}' has a piece of another rank: got extent {} in dimension {}, expected {} on "
        "rank {}",
        host.node.name, piece.shape()[p.dim], p.dim, p.size(group.rank()), group.rank());
  return p;
}

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
  TR_CO_ASSIGN_OR_RETURN(const Pieces pieces, pieces_of(group, host, whole, piece));
  if (!host.node.attrs.get_ints("sizes").empty()) call.counts = pieces.counts();
  if (pieces.are_packed()) co_return co_await group.allgather(std::move(call), piece, whole);
  TR_CO_ASSIGN_OR_RETURN(const Scratch::Lent packed, scratch.lend(whole));
  std::byte* at = packed.tensor().raw();
  if (at != nullptr) copy_some(at + pieces.in_packed(group.rank(), 0), piece.raw(), piece.type().num_bytes());
  TR_CO_RETURN_IF_ERROR(co_await group.allgather(std::move(call), Tensor(), packed.tensor()));
  if (at != nullptr) pieces.unpack(at, whole.raw());
  co_return Status();
}

Task<Status> reduce_scatter(Group& group, Scratch& scratch, Call call, const HostCall& host) {
  const Tensor &whole = host.inputs[0], &piece = host.outputs[0];
  TR_CO_ASSIGN_OR_RETURN(const Pieces pieces, pieces_of(group, host, whole, piece));
  if (!host.node.attrs.get_ints("sizes").empty()) call.counts = pieces.counts();
  call.algorithm = "fixed-tree";
  TR_CO_ASSIGN_OR_RETURN(const Scratch::Lent packed, scratch.lend(whole));  // the input stays as it is
  std::byte* at = packed.tensor().raw();
  if (at != nullptr) pieces.pack(whole.raw(), at);
  TR_CO_RETURN_IF_ERROR(co_await group.reduce_scatter(std::move(call), packed.tensor(), Tensor()));
  if (at != nullptr) copy_some(piece.raw(), at + pieces.in_packed(group.rank(), 0), piece.type().num_bytes());
  co_return Status();
}

Task<Status> send(Group& group, Scratch& /*scratch*/, Call call, const HostCall& host) {
  write_token(host);
  return group.send(std::move(call), static_cast<int>(host.node.attrs.get_int("peer")), host.inputs[0]);
}

Task<Status> recv(Group& group, Scratch& /*scratch*/, Call call, const HostCall& host) {
  return group.recv(std::move(call), static_cast<int>(host.node.attrs.get_int("peer")), host.outputs[0]);
}

// What the op gives where no other rank takes part.
using Alone = void (*)(int rank, const HostCall& host);

void keep_own(int /*rank*/, const HostCall& host) { copy_input(host.inputs[0], host.outputs[0]); }

// Indices and flags are 0.
void receive_ones(int /*rank*/, const HostCall& host) {
  const Tensor& out = host.outputs[0];
  std::memset(out.raw(), 0, out.type().num_bytes());
  if (!is_floating(out.dtype())) return;
  op::detail::dispatch_float(out.dtype(), [&out]<typename T>() {
    for (T& value : out.values<T>()) value = static_cast<T>(1.0F);
  });
}

// Pieces that are longer than this rank's have it several times.
void repeat_own(int rank, const HostCall& host) {
  const Tensor &piece = host.inputs[0], &whole = host.outputs[0];
  const Pieces p = Pieces::of(host.node.attrs, whole);
  const std::int64_t own = piece.shape()[p.dim];
  if (own == 0) return receive_ones(rank, host);
  const std::size_t step = p.bytes(p.inner);
  for (std::int64_t row = 0; row < p.outer; ++row)
    for (int r = 0; r < p.world(); ++r)
      for (std::int64_t i = 0; i < p.size(r); ++i)
        copy_some(whole.raw() + p.in_whole(r, row) + p.bytes(i * p.inner),
                  piece.raw() + p.bytes((row * own + i % own) * p.inner), step);
}

void take_own_piece(int rank, const HostCall& host) {
  const Tensor &whole = host.inputs[0], &piece = host.outputs[0];
  const Pieces p = Pieces::of(host.node.attrs, whole);
  const std::size_t bytes = p.bytes(piece.shape()[p.dim] * p.inner);
  for (std::int64_t row = 0; row < p.outer; ++row)
    copy_some(piece.raw() + static_cast<std::size_t>(row) * bytes, whole.raw() + p.in_whole(rank, row),
              bytes);
}

void send_to_nobody(int /*rank*/, const HostCall& host) { write_token(host); }

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
  GroupOp(Group& group, Scratch& scratch, std::uint32_t num_shards, Run run)
      : group_(group), scratch_(scratch), num_shards_(num_shards), run_(run) {}
  Task<Status> start(HostCall host) override {
    TR_CO_ASSIGN_OR_RETURN(Call call, call_of(host, num_shards_));
    const Withdrawal withdrawal(group_, host);
    Task<Status> task = run_(group_, scratch_, std::move(call), host);
    co_return co_await task;
  }

 private:
  Group& group_;
  Scratch& scratch_;
  const std::uint32_t num_shards_;
  const Run run_;
};

class LoneOp final : public exec::HostOp {
 public:
  LoneOp(int rank, Alone alone) : rank_(rank), alone_(alone) {}
  Task<Status> start(HostCall host) override {
    TR_CO_RETURN_IF_ERROR(expect_whole_group(host));
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

std::unique_ptr<HostOpTable> make_host_ops(Group& group, std::uint32_t num_shards) {
  return std::make_unique<OpTable<GroupOp>>(
      [&](const Row& row, Scratch& scratch) { return GroupOp(group, scratch, num_shards, row.run); });
}

std::unique_ptr<HostOpTable> make_lone_host_ops(int rank) {
  return std::make_unique<OpTable<LoneOp>>(
      [rank](const Row& row, Scratch&) { return LoneOp(rank, row.alone); });
}

}  // namespace trireme::comm
