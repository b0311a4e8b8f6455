// Any op with formed operands: they are turned around and cast in the workspace, and the row of the plain op
// runs there.
// The way of last resort: the rows before this one in the table read operands where they are.
#include "trireme/kernel/cpu/formed.h"
#include "trireme/kernel/kernel.h"
#include "trireme/op/op.h"
#include "trireme/op/ops.h"

namespace trireme::kernel {

extern const op::KernelRow kCastVector, kTransposeCopy;  // around another row
namespace {

using Ints = std::vector<std::int64_t>;

std::size_t round_up(std::size_t bytes) { return (bytes + 63) / 64 * 64; }

// The way of one operand between memory and the op.
struct Way {
  TensorType outside, turned, inside;  // turned: the order of `inside`, the dtype of `outside`
  bool turns = false, casts = false;

  std::size_t bytes() const {
    return (turns ? round_up(turned.num_bytes()) : 0) + (casts ? round_up(inside.num_bytes()) : 0);
  }
};

std::vector<Way> ways(std::span<const TensorType> outside, const std::vector<TensorType>& inside,
                      const std::vector<op::Form>& forms) {
  std::vector<Way> all;
  for (std::size_t i = 0; i < inside.size(); ++i) {
    Way way{outside[i], {outside[i].dtype, inside[i].shape}, inside[i]};
    way.turns = forms[i].order == op::Order::kChannelsLast;
    way.casts = outside[i].dtype != inside[i].dtype;
    all.push_back(way);
  }
  return all;
}

class StagedState final : public op::KernelState {
 public:
  explicit StagedState(const op::KernelQuery& q) {
    const op::OpTypes types = op::types_within(q);
    in_ = ways(q.inputs, types.inputs, q.forms.inputs);
    out_ = ways(q.outputs, types.outputs, q.forms.outputs);
    const op::KernelQuery own{q.def, types.inputs, types.outputs, q.attrs, q.width};
    const auto choice = choose_cpu_kernel(own);
    const op::KernelRow* const row = choice.ok() ? choice->row : nullptr;
    run_ = row != nullptr ? row->run : q.def.reference;
    if (row == nullptr && q.def.reference_workspace != nullptr)
      own_bytes_ = q.def.reference_workspace(types.inputs, q.attrs);
    if (row != nullptr && row->workspace_bytes != nullptr) own_bytes_ = row->workspace_bytes(own);
    if (row != nullptr && row->prepare != nullptr) state_ = row->prepare(own);
  }

  std::size_t workspace_bytes() const {
    std::size_t bytes = own_bytes_;
    for (const auto* list : {&in_, &out_})
      for (const Way& way : *list) bytes += way.bytes();
    return bytes;
  }

  void run(op::KernelArgs& args) const {
    std::span<std::byte> left = args.workspace;
    const auto take = [&](const TensorType& type) {
      const Tensor t(Buffer::wrap(cpu_device(), left.data(), round_up(type.num_bytes())), type);
      left = left.subspan(round_up(type.num_bytes()));
      return t;
    };
    std::vector<Tensor> in, out, turned;
    for (std::size_t i = 0; i < in_.size(); ++i) {
      Tensor at = args.inputs[i];
      if (in_[i].turns) at = turn(args.parallel, at, take(in_[i].turned), {0, 3, 1, 2});
      if (in_[i].casts) at = cast(args.parallel, at, take(in_[i].inside));
      in.push_back(at);
    }
    for (std::size_t i = 0; i < out_.size(); ++i) {
      turned.push_back(out_[i].turns ? take(out_[i].turned) : args.outputs[i]);
      out.push_back(out_[i].casts ? take(out_[i].inside) : turned[i]);
    }
    op::KernelArgs inner{.inputs = in,
                         .outputs = out,
                         .attrs = args.attrs,
                         .workspace = left.first(own_bytes_),
                         .parallel = args.parallel,
                         .state = state_.get()};
    run_(inner);
    for (std::size_t i = 0; i < out_.size(); ++i) {
      if (out_[i].casts) cast(args.parallel, out[i], turned[i]);
      if (out_[i].turns) turn(args.parallel, turned[i], args.outputs[i], {0, 2, 3, 1});
    }
  }

 private:
  static Tensor turn(op::Parallel& parallel, const Tensor& from, const Tensor& to, Ints order) {
    const op::Attrs attrs{{"order", std::move(order)}};
    op::KernelArgs args{{&from, 1}, {&to, 1}, attrs, {}, parallel};
    kTransposeCopy.run(args);
    return to;
  }
  static Tensor cast(op::Parallel& parallel, const Tensor& from, const Tensor& to) {
    const op::Attrs attrs{{"dtype", to.dtype()}};
    const op::KernelQuery q{op::kCast, {&from.type(), 1}, {&to.type(), 1}, attrs, parallel.width()};
    op::KernelArgs args{{&from, 1}, {&to, 1}, attrs, {}, parallel};
    (kCastVector.applicable(q) ? kCastVector.run : op::kCast.reference)(args);
    return to;
  }

  std::vector<Way> in_, out_;
  op::KernelFn run_ = nullptr;
  std::size_t own_bytes_ = 0;
  std::unique_ptr<op::KernelState> state_;
};

std::size_t workspace_bytes(const op::KernelQuery& q) { return StagedState(q).workspace_bytes(); }
std::unique_ptr<op::KernelState> prepare(const op::KernelQuery& q) {
  return std::make_unique<StagedState>(q);
}
void run(op::KernelArgs& args) { static_cast<const StagedState&>(*args.state).run(args); }

}  // namespace

extern const op::KernelRow kStaged{.op = op::kAnyOp,
                                   .name = "staged",
                                   .run = run,
                                   .workspace_bytes = workspace_bytes,
                                   .prepare = prepare,
                                   .takes = takes_formed};

}  // namespace trireme::kernel
