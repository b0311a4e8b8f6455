#include "trireme/comm/host_ops.h"

#include <limits>

namespace trireme::comm {
namespace {

Result<Call> call_of(const graph::Node& node, std::uint32_t step) {
  const std::int64_t slot = node.attrs.get_int("slot");
  // The last slot is the group's own.
  if (slot < 0 || slot >= std::numeric_limits<std::uint16_t>::max())
    return error(Code::kInvalid,
                 "[comm] node '{}' has no slot: got {}, expected 0..65534; number the slots in the plan",
                 node.name, slot);
  Call call;
  call.step = step;
  call.slot = static_cast<std::uint16_t>(slot);
  call.label = node.attrs.get_text("label");
  if (call.label.empty()) call.label = node.name;
  return call;
}

// Collectives work in place: the output starts as the input.
void copy_input(const Tensor& from, const Tensor& to) {
  if (from.is_phantom() || to.is_phantom() || from.raw() == to.raw()) return;
  copy_to_contiguous(from, to);
}

class ClusterOps final : public GroupHostOps {
 public:
  explicit ClusterOps(Group& group) : allreduce_(*this), broadcast_(*this), group_(group) {}
  void set_step(std::uint32_t step) override { step_ = step; }
  exec::HostOps table() override { return {{"allreduce", &allreduce_}, {"broadcast", &broadcast_}}; }

 private:
  struct Allreduce final : exec::HostOp {
    explicit Allreduce(ClusterOps& o) : ops(o) {}
    runtime::Task<Status> start(const graph::Node& node, std::span<const Tensor> in,
                                std::span<const Tensor> out) override {
      TR_CO_ASSIGN_OR_RETURN(Call call, call_of(node, ops.step_));
      const Tensor result = out[0];
      copy_input(in[0], result);
      co_return co_await ops.group_.allreduce(std::move(call), result);
    }
    ClusterOps& ops;
  };
  struct Broadcast final : exec::HostOp {
    explicit Broadcast(ClusterOps& o) : ops(o) {}
    runtime::Task<Status> start(const graph::Node& node, std::span<const Tensor> in,
                                std::span<const Tensor> out) override {
      TR_CO_ASSIGN_OR_RETURN(Call call, call_of(node, ops.step_));
      call.root = static_cast<int>(node.attrs.get_int("root"));
      const Tensor result = out[0];
      copy_input(in[0], result);
      co_return co_await ops.group_.broadcast(std::move(call), result);
    }
    ClusterOps& ops;
  };

  Allreduce allreduce_;
  Broadcast broadcast_;
  Group& group_;
  std::uint32_t step_ = 0;
};

}  // namespace

std::unique_ptr<GroupHostOps> make_host_ops(Group& group) { return std::make_unique<ClusterOps>(group); }

}  // namespace trireme::comm
