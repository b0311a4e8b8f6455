#include "trireme/kernel/cuda/conv/turned.h"

#include "trireme/kernel/cuda/device/device.h"
#include "trireme/op/ops.h"

namespace trireme::kernel::cuda {
namespace {

std::size_t whole_lines(std::size_t bytes) { return (bytes + 255) / 256 * 256; }

struct Turn {
  TensorType plain;
  std::shared_ptr<const op::Attrs> attrs;  // the kernel may refer to them
  std::shared_ptr<const CudaKernel> kernel;
  std::size_t at;  // in the workspace
};

class Turned final : public CudaKernel {
 public:
  explicit Turned(std::unique_ptr<CudaKernel> plain) : plain_(std::move(plain)) {}

  Status add(const CudaQuery& q, const TensorType& type, bool is_input) {
    const Shape& s = type.shape;
    const TensorType last{type.dtype, {s[0], s[2], s[3], s[1]}};
    const std::vector<std::int64_t> order =
        is_input ? std::vector<std::int64_t>{0, 3, 1, 2} : std::vector<std::int64_t>{0, 2, 3, 1};
    Turn turn{type, std::make_shared<const op::Attrs>(op::Attrs{{"order", order}}), nullptr, bytes_};
    const CudaQuery own{
        op::kTranspose, {is_input ? &last : &type, 1}, {is_input ? &type : &last, 1}, *turn.attrs, q.device};
    TR_ASSIGN_OR_RETURN(turn.kernel, make_transpose(own));
    turn_bytes_ = std::max(turn_bytes_, turn.kernel->workspace_bytes());
    bytes_ += whole_lines(type.num_bytes());
    (is_input ? inputs_ : outputs_).push_back(std::move(turn));
    return {};
  }

  std::size_t workspace_bytes() const override {
    return bytes_ + std::max(turn_bytes_, plain_->workspace_bytes());
  }

  Status enqueue(const CudaArgs& args) const override {
    CudaDevice& device = args.stream.device();
    std::byte* const scratch = args.workspace + bytes_;
    std::vector<Tensor> in, out;
    const auto place = [&](const Turn& t, std::vector<Tensor>& to) {
      to.emplace_back(Buffer::wrap(device, args.workspace + t.at, t.plain.num_bytes()), t.plain);
    };
    for (std::size_t i = 0; i < inputs_.size(); ++i) {
      place(inputs_[i], in);
      TR_RETURN_IF_ERROR(
          inputs_[i].kernel->enqueue({{&args.inputs[i], 1}, {&in[i], 1}, scratch, args.stream}));
    }
    for (const Turn& t : outputs_) place(t, out);
    TR_RETURN_IF_ERROR(plain_->enqueue({in, out, scratch, args.stream}));
    for (std::size_t i = 0; i < outputs_.size(); ++i)
      TR_RETURN_IF_ERROR(
          outputs_[i].kernel->enqueue({{&out[i], 1}, {&args.outputs[i], 1}, scratch, args.stream}));
    return {};
  }

 private:
  std::unique_ptr<CudaKernel> plain_;
  std::vector<Turn> inputs_, outputs_;
  std::size_t bytes_ = 0, turn_bytes_ = 0;
};

}  // namespace

Made make_turned(const CudaQuery& q, std::unique_ptr<CudaKernel> plain) {
  auto turned = std::make_unique<Turned>(std::move(plain));
  for (const TensorType& t : q.inputs) TR_RETURN_IF_ERROR(turned->add(q, t, true));
  for (const TensorType& t : q.outputs) TR_RETURN_IF_ERROR(turned->add(q, t, false));
  return std::unique_ptr<CudaKernel>(std::move(turned));
}

}  // namespace trireme::kernel::cuda
