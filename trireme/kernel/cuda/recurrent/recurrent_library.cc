// rnn, lstm, gru, their gradients and recurrent_kept through cuDNN, for bf16, f16 and tf32. The rest goes to
// recurrent.cc: f32 products without tensor cores are no faster in cuDNN (docs/studies/gpu.md).
//
// Algorithms: 0 cuDNN's, 1 ours.
#include "trireme/kernel/cuda/cuda.h"

#include "trireme/kernel/cuda/recurrent/recurrent.h"
#include "trireme/kernel/cuda/recurrent/recurrent_dnn.h"
#include "trireme/kernel/cuda/rows.h"
#include "trireme/op/ops.h"
#include "trireme/op/sequence/recurrent_kept.h"

namespace trireme::kernel::cuda {
namespace {

constexpr int kOurs = 1;
constexpr std::size_t kLeastVersion = 90000;
constexpr std::size_t kAlign = 256;  // of spaces that cuDNN gets

std::size_t aligned(std::size_t bytes) { return (bytes + kAlign - 1) / kAlign * kAlign; }
std::byte* aligned(std::byte* p) {
  return p + (aligned(reinterpret_cast<std::uintptr_t>(p)) - reinterpret_cast<std::uintptr_t>(p));
}

// The op of a query: which cell, which pass, whether it keeps or takes what is kept.
struct Op {
  op::KeptCell cell;
  bool backward, has_kept;
  int algorithm;
  std::size_t kept_bytes = 0;

  explicit Op(const CudaQuery& q)
      : cell(op::kept_cell(q.attrs.find("cell") != nullptr ? std::string_view(q.attrs.get_text("cell"))
                                                           : op::kept_cell_name(q.def, q.attrs))),
        backward(q.def.name.ends_with("_grad")),
        has_kept(q.attrs.find("bytes") != nullptr),
        algorithm(q.algorithm) {
    if (!has_kept) return;
    algorithm = static_cast<int>(q.attrs.get_int("algorithm"));
    kept_bytes = static_cast<std::size_t>(q.attrs.get_int("bytes"));
  }
  cudnnRNNMode_t mode() const {
    if (has_cell()) return CUDNN_LSTM;
    return cell.name == "gru" ? CUDNN_GRU : cell.name == "rnn_relu" ? CUDNN_RNN_RELU : CUDNN_RNN_TANH;
  }
  bool has_cell() const { return cell.name == "lstm"; }
  int first_weight() const { return has_cell() ? 3 : 2; }
  int num_inputs() const { return first_weight() + 4; }                  // of the forward op
  int first_given() const { return num_inputs() + (has_kept ? 2 : 0); }  // dy, dh_n, dc_n
};

RecurrentSpec spec_of(const CudaQuery& q, const Op& op) {
  const Shape &x = q.inputs[0].shape, &h = q.inputs[1].shape;
  return {op.mode(), q.inputs[0].dtype, q.tf32, x[0], x[1], x[2], h[1]};
}

// One node through cuDNN. Workspace: weights, what cuDNN asks for, the reserve and y, where they are needed.
class LibraryRecurrent final : public CudaKernel {
 public:
  LibraryRecurrent(const Op& op, std::shared_ptr<const DnnRecurrent> layer, std::size_t y_bytes)
      : op_(op), layer_(std::move(layer)) {
    const bool training = op.backward || op.kept_bytes > 0;
    work_ = aligned(layer_->weight_bytes());
    bytes_ = reserve_ = work_ + aligned(layer_->work_bytes(training));
    if (!op.backward) return;
    bytes_ = y_ = reserve_ + aligned(layer_->reserve_bytes());
    if (op.kept_bytes == 0) bytes_ += aligned(y_bytes);
  }
  std::size_t workspace_bytes() const override { return bytes_; }
  Status enqueue(const CudaArgs& a) const override {
    TR_RETURN_IF_ERROR(layer_->pack(a.stream, weights_of(a.inputs), a.workspace));
    if (!op_.backward) return go_forward(a);
    // The gradient spoils the reserve: what is kept stays as it is.
    TR_RETURN_IF_ERROR(op_.kept_bytes > 0 ? copy_kept(a) : go_forward(a));
    return go_back(a);
  }

 private:
  DnnRecurrent::Weights weights_of(std::span<const Tensor> all) const {
    const auto w = static_cast<std::size_t>(op_.first_weight());
    return {all[w].raw(), all[w + 1].raw(), all[w + 2].raw(), all[w + 3].raw()};
  }
  std::byte* reserve_at(const CudaArgs& a) const {
    if (op_.backward) return a.workspace + reserve_;
    return op_.kept_bytes > 0 ? aligned(a.outputs.back().raw()) : nullptr;
  }
  std::byte* y_at(const CudaArgs& a) const {
    if (!op_.backward) return a.out(0).raw();
    return op_.kept_bytes > 0 ? a.in(op_.num_inputs()).raw() : a.workspace + y_;
  }

  Status go_forward(const CudaArgs& a) const {
    const bool gives = !op_.backward;
    return layer_->forward(a.stream, {.x = a.in(0).raw(),
                                      .h = a.in(1).raw(),
                                      .c = op_.has_cell() ? a.in(2).raw() : nullptr,
                                      .y = y_at(a),
                                      .last_h = gives ? a.out(1).raw() : nullptr,
                                      .last_c = gives && op_.has_cell() ? a.out(2).raw() : nullptr,
                                      .weights = a.workspace,
                                      .work = a.workspace + work_,
                                      .reserve = reserve_at(a)});
  }

  Status copy_kept(const CudaArgs& a) const {
    const Libraries& lib = a.stream.device().lib();
    a.stream.device().enter();
    return lib.check(
        lib.cuMemcpyAsync(reinterpret_cast<CUdeviceptr>(a.workspace + reserve_),
                          reinterpret_cast<CUdeviceptr>(aligned(a.in(op_.num_inputs() + 1).raw())),
                          layer_->reserve_bytes(), a.stream.raw()),
        "copying what a recurrent layer kept");
  }

  Status go_back(const CudaArgs& a) const {
    const int given = op_.first_given();
    const bool cell = op_.has_cell();
    TR_RETURN_IF_ERROR(layer_->backward(a.stream, {.x = a.in(0).raw(),
                                                   .h = a.in(1).raw(),
                                                   .c = cell ? a.in(2).raw() : nullptr,
                                                   .y = y_at(a),
                                                   .dy = a.in(given).raw(),
                                                   .dlast_h = a.in(given + 1).raw(),
                                                   .dlast_c = cell ? a.in(given + 2).raw() : nullptr,
                                                   .dx = a.out(0).raw(),
                                                   .dh = a.out(1).raw(),
                                                   .dc = cell ? a.out(2).raw() : nullptr,
                                                   .weights = a.workspace,
                                                   .work = a.workspace + work_,
                                                   .reserve = a.workspace + reserve_}));
    return layer_->unpack(a.stream, a.workspace, weights_of(a.outputs));
  }

  Op op_;
  std::shared_ptr<const DnnRecurrent> layer_;
  std::size_t work_ = 0, reserve_ = 0, y_ = 0, bytes_ = 0;
};

}  // namespace

bool recurrence_fits(const CudaQuery& q) {
  const DType dtype = q.inputs[0].dtype;
  if (q.device.only_compiles() || q.device.lib().cudnnGetVersion() < kLeastVersion) return false;
  if (dtype != DType::kBF16 && dtype != DType::kF16 && !(dtype == DType::kF32 && q.tf32)) return false;
  return q.inputs[0].shape.num_elems() > 0 && q.inputs[1].shape.num_elems() > 0;
}

Made make_recurrent_dnn(const CudaQuery& q) {
  if (q.algorithm > kOurs)
    return error(Code::kNotFound, "[cuda] recurrent layers have {} algorithms, got {}", kOurs + 1,
                 q.algorithm);
  const Op op(q);
  if (op.algorithm == kOurs) return make_recurrent(q);
  const auto layer = DnnRecurrent::make(q.device, spec_of(q, op));
  if (!layer.ok()) {
    if (op.kept_bytes > 0 || layer.status().code() != Code::kUnavailable) return layer.status();
    return make_recurrent(q);
  }
  if (op.kept_bytes > 0 && op.kept_bytes != (*layer)->reserve_bytes() + kAlign)
    return error(
        Code::kInvalid,
        "[cuda] a recurrent layer keeps {} bytes for its gradient, got {}; make the plan anew on this "
        "machine",
        (*layer)->reserve_bytes() + kAlign, op.kept_bytes);
  const auto y_elems = static_cast<std::size_t>(q.inputs[0].shape[0] * q.inputs[1].shape.num_elems());
  return std::unique_ptr<CudaKernel>(
      std::make_unique<LibraryRecurrent>(op, *layer, y_elems * dtype_size(q.inputs[0].dtype)));
}

std::optional<RecurrentReserve> recurrent_reserve(const CudaQuery& q) {
  if (q.inputs[0].shape.num_elems() == 0 || q.inputs[1].shape.num_elems() == 0) return {};
  if (recurrence_fits(q)) {
    const auto layer = DnnRecurrent::make(q.device, spec_of(q, Op(q)));
    if (layer.ok()) return RecurrentReserve{0, static_cast<std::int64_t>((*layer)->reserve_bytes() + kAlign)};
  }
  return RecurrentReserve{kOurs, static_cast<std::int64_t>(own_reserve_bytes(q))};
}

}  // namespace trireme::kernel::cuda
