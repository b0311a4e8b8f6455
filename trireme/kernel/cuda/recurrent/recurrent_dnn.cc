#include "trireme/kernel/cuda/recurrent/recurrent_dnn.h"

#include <array>

namespace trireme::kernel::cuda {

struct DnnRecurrentParts {
  const Libraries& lib;
  cudnnRNNDescriptor_t layer = nullptr;
  cudnnRNNDataDescriptor_t x = nullptr, y = nullptr;
  cudnnTensorDescriptor_t state = nullptr;
  cudnnDropoutDescriptor_t dropout = nullptr;

  explicit DnnRecurrentParts(const Libraries& l) : lib(l) {}
  DnnRecurrentParts(const DnnRecurrentParts&) = delete;
  DnnRecurrentParts& operator=(const DnnRecurrentParts&) = delete;
  ~DnnRecurrentParts() {
    if (layer != nullptr) lib.cudnnDestroyRNNDescriptor(layer);
    if (x != nullptr) lib.cudnnDestroyRNNDataDescriptor(x);
    if (y != nullptr) lib.cudnnDestroyRNNDataDescriptor(y);
    if (state != nullptr) lib.cudnnDestroyTensorDescriptor(state);
    if (dropout != nullptr) lib.cudnnDestroyDropoutDescriptor(dropout);
  }
};

namespace {

cudnnDataType_t data_type(DType dtype) {
  return dtype == DType::kBF16  ? CUDNN_DATA_BFLOAT16
         : dtype == DType::kF16 ? CUDNN_DATA_HALF
                                : CUDNN_DATA_FLOAT;
}

int gates_of(cudnnRNNMode_t cell) { return cell == CUDNN_LSTM ? 4 : cell == CUDNN_GRU ? 3 : 1; }

CUdeviceptr address(const void* p) { return reinterpret_cast<CUdeviceptr>(p); }

}  // namespace

DnnRecurrent::DnnRecurrent(CudaDevice& device)
    : lib_(&device.lib()), device_(&device), parts_(std::make_unique<DnnRecurrentParts>(device.lib())) {}
DnnRecurrent::~DnnRecurrent() = default;

Status DnnRecurrent::check(cudnnStatus_t result, const char* what) const {
  if (result == CUDNN_STATUS_SUCCESS) return ok_status();
  return error(Code::kUnavailable, "{}", lib_->check(result, what).message());
}

#define TR_DNN(call) TR_RETURN_IF_ERROR(check(lib_->call, "describing a recurrent layer"))

Result<std::shared_ptr<const DnnRecurrent>> DnnRecurrent::make(CudaDevice& device,
                                                               const RecurrentSpec& spec) {
  const std::shared_ptr<DnnRecurrent> made(new DnnRecurrent(device));
  device.enter();
  TR_ASSIGN_OR_RETURN(const CudaDevice::Planning planning, device.planning_handle());
  {
    const Status dropout = made->check(device.lib().cudnnCreateDropoutDescriptor(&made->parts_->dropout),
                                       "describing a recurrent layer");
    TR_RETURN_IF_ERROR(dropout);
    TR_RETURN_IF_ERROR(made->check(
        device.lib().cudnnSetDropoutDescriptor(made->parts_->dropout, planning.handle, 0, nullptr, 0, 0),
        "describing a recurrent layer"));
  }
  TR_RETURN_IF_ERROR(made->describe(spec));
  TR_RETURN_IF_ERROR(made->measure(planning.handle));
  TR_RETURN_IF_ERROR(made->find_pieces(planning.handle, spec));
  return std::shared_ptr<const DnnRecurrent>(made);
}

Status DnnRecurrent::describe(const RecurrentSpec& s) {
  DnnRecurrentParts& p = *parts_;
  const cudnnDataType_t type = data_type(s.dtype);
  const cudnnMathType_t math = s.dtype == DType::kF32 && !s.tf32 ? CUDNN_FMA_MATH : CUDNN_DEFAULT_MATH;
  const int steps = static_cast<int>(s.steps), batch = static_cast<int>(s.batch);
  const int size = static_cast<int>(s.size), units = static_cast<int>(s.units);
  TR_DNN(cudnnCreateRNNDescriptor(&p.layer));
  TR_DNN(cudnnSetRNNDescriptor_v8(p.layer, CUDNN_RNN_ALGO_STANDARD, s.cell, CUDNN_RNN_DOUBLE_BIAS,
                                  CUDNN_UNIDIRECTIONAL, CUDNN_LINEAR_INPUT, type, CUDNN_DATA_FLOAT, math,
                                  size, units, units, 1, p.dropout, CUDNN_RNN_PADDED_IO_DISABLED));
  const std::vector<int> lengths(static_cast<std::size_t>(batch), steps);
  double zero = 0;  // in any dtype
  TR_DNN(cudnnCreateRNNDataDescriptor(&p.x));
  TR_DNN(cudnnSetRNNDataDescriptor(p.x, type, CUDNN_RNN_DATA_LAYOUT_SEQ_MAJOR_PACKED, steps, batch, size,
                                   lengths.data(), &zero));
  TR_DNN(cudnnCreateRNNDataDescriptor(&p.y));
  TR_DNN(cudnnSetRNNDataDescriptor(p.y, type, CUDNN_RNN_DATA_LAYOUT_SEQ_MAJOR_PACKED, steps, batch, units,
                                   lengths.data(), &zero));
  const std::array dims{1, batch, units}, strides{batch * units, units, 1};
  TR_DNN(cudnnCreateTensorDescriptor(&p.state));
  TR_DNN(cudnnSetTensorNdDescriptor(p.state, type, 3, dims.data(), strides.data()));
  return ok_status();
}

Status DnnRecurrent::measure(cudnnHandle_t handle) {
  const DnnRecurrentParts& p = *parts_;
  std::size_t none = 0;
  TR_DNN(cudnnGetRNNTempSpaceSizes(handle, p.layer, CUDNN_FWD_MODE_TRAINING, p.x, &training_bytes_,
                                   &reserve_bytes_));
  TR_DNN(cudnnGetRNNTempSpaceSizes(handle, p.layer, CUDNN_FWD_MODE_INFERENCE, p.x, &inference_bytes_, &none));
  TR_DNN(cudnnGetRNNWeightSpaceSize(handle, p.layer, &weight_bytes_));
  return ok_status();
}

// Gates lie behind each other in our weights; in cuDNN's space as it says.
Status DnnRecurrent::find_pieces(cudnnHandle_t handle, const RecurrentSpec& s) {
  TR_ASSIGN_OR_RETURN(const Buffer space, device_->allocate(weight_bytes_));
  DnnRecurrentParts& p = *parts_;
  cudnnTensorDescriptor_t matrix = nullptr, bias = nullptr;
  Status status = check(lib_->cudnnCreateTensorDescriptor(&matrix), "describing a recurrent layer");
  if (status.ok()) status = check(lib_->cudnnCreateTensorDescriptor(&bias), "describing a recurrent layer");
  const int gates = gates_of(s.cell);
  const auto units = static_cast<std::size_t>(s.units), size = static_cast<std::size_t>(s.size);
  const std::size_t element = dtype_size(s.dtype);
  for (int side = 0; side < 2; ++side) {  // by x, by h
    for (int gate = 0; gate < gates && status.ok(); ++gate) {
      void *at = nullptr, *bias_at = nullptr;
      status = check(lib_->cudnnGetRNNWeightParams(handle, p.layer, 0, weight_bytes_, space.data(),
                                                   side * gates + gate, matrix, &at, bias, &bias_at),
                     "describing a recurrent layer");
      if (!status.ok()) break;
      const std::size_t bytes = units * (side == 0 ? size : units) * element, row = units * element;
      const auto g = static_cast<std::size_t>(gate);
      const auto place = [&](void* v) {
        return static_cast<std::size_t>(static_cast<std::byte*>(v) - space.data());
      };
      if (at == nullptr || bias_at == nullptr || place(at) + bytes > weight_bytes_ ||
          place(bias_at) + row > weight_bytes_) {
        status = error(Code::kUnavailable, "[cuda] cuDNN has no place for a weight of a recurrent layer");
        break;
      }
      add_piece({side, g * bytes, place(at), bytes});
      add_piece({2 + side, g * row, place(bias_at), row});
    }
  }
  if (matrix != nullptr) lib_->cudnnDestroyTensorDescriptor(matrix);
  if (bias != nullptr) lib_->cudnnDestroyTensorDescriptor(bias);
  return status;
}

void DnnRecurrent::add_piece(Piece piece) {
  for (Piece& p : pieces_) {
    if (p.weight != piece.weight || p.from + p.bytes != piece.from || p.to + p.bytes != piece.to) continue;
    p.bytes += piece.bytes;
    return;
  }
  pieces_.push_back(piece);
}

Status DnnRecurrent::pack(CudaStream& stream, const Weights& w, std::byte* space) const {
  const std::array all{w.w_ih, w.w_hh, w.b_ih, w.b_hh};
  device_->enter();
  for (const Piece& p : pieces_) {
    const auto* from = static_cast<const std::byte*>(all[static_cast<std::size_t>(p.weight)]) + p.from;
    TR_RETURN_IF_ERROR(lib_->check(
        lib_->cuMemcpyAsync(address(space + p.to), address(from), p.bytes, stream.raw()), "packing weights"));
  }
  return ok_status();
}

Status DnnRecurrent::unpack(CudaStream& stream, std::byte* space, const Weights& w) const {
  const std::array all{w.w_ih, w.w_hh, w.b_ih, w.b_hh};
  device_->enter();
  for (const Piece& p : pieces_) {
    auto* to = static_cast<std::byte*>(all[static_cast<std::size_t>(p.weight)]) + p.from;
    TR_RETURN_IF_ERROR(
        lib_->check(lib_->cuMemcpyAsync(address(to), address(space + p.to), p.bytes, stream.raw()),
                    "unpacking gradients of weights"));
  }
  return ok_status();
}

Status DnnRecurrent::forward(CudaStream& stream, const Forward& f) const {
  TR_ASSIGN_OR_RETURN(const cudnnHandle_t handle, stream.cudnn());
  const DnnRecurrentParts& p = *parts_;
  const bool training = f.reserve != nullptr;
  return lib_->check(
      lib_->cudnnRNNForward(handle, p.layer, training ? CUDNN_FWD_MODE_TRAINING : CUDNN_FWD_MODE_INFERENCE,
                            nullptr, p.x, f.x, p.y, f.y, p.state, f.h, f.last_h, p.state, f.c, f.last_c,
                            weight_bytes_, f.weights, work_bytes(training), f.work,
                            training ? reserve_bytes_ : 0, f.reserve),
      "running a recurrent layer");
}

Status DnnRecurrent::backward(CudaStream& stream, const Backward& b) const {
  TR_ASSIGN_OR_RETURN(const cudnnHandle_t handle, stream.cudnn());
  const DnnRecurrentParts& p = *parts_;
  TR_RETURN_IF_ERROR(lib_->check(
      lib_->cudnnRNNBackwardData_v8(handle, p.layer, nullptr, p.y, b.y, b.dy, p.x, b.dx, p.state, b.h,
                                    b.dlast_h, b.dh, p.state, b.c, b.dlast_c, b.dc, weight_bytes_, b.weights,
                                    training_bytes_, b.work, reserve_bytes_, b.reserve),
      "running the gradient of a recurrent layer"));
  // Gradients of weights are added to what is there.
  TR_RETURN_IF_ERROR(lib_->check(lib_->cuMemsetD8Async(address(b.weights), 0, weight_bytes_, stream.raw()),
                                 "clearing gradients"));
  return lib_->check(lib_->cudnnRNNBackwardWeights_v8(handle, p.layer, CUDNN_WGRAD_MODE_ADD, nullptr, p.x,
                                                      b.x, p.state, b.h, p.y, b.y, weight_bytes_, b.weights,
                                                      training_bytes_, b.work, reserve_bytes_, b.reserve),
                     "running the gradient of a recurrent layer's weights");
}

}  // namespace trireme::kernel::cuda
