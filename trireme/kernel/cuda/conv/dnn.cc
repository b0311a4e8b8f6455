#include "trireme/kernel/cuda/conv/dnn.h"

#include <algorithm>
#include <array>

namespace trireme::kernel::cuda {
namespace {

constexpr std::int64_t kAlignBytes = 16;

cudnnDataType_t data_type(DType d) {
  switch (d) {
    case DType::kF64:
      return CUDNN_DATA_DOUBLE;
    case DType::kBF16:
      return CUDNN_DATA_BFLOAT16;
    case DType::kF16:
      return CUDNN_DATA_HALF;
    case DType::kI32:
      return CUDNN_DATA_INT32;
    default:
      return CUDNN_DATA_FLOAT;
  }
}

std::size_t at(std::int64_t i) { return static_cast<std::size_t>(i); }

}  // namespace

Dims row_major(const Dims& dims) {
  Dims strides(dims.size(), 1);
  for (std::size_t i = dims.size() - 1; i > 0; --i) strides[i - 1] = strides[i] * dims[i];
  return strides;
}

Dims channels_last(const Dims& d) { return {d[1] * d[2] * d[3], 1, d[1] * d[3], d[1]}; }

// ---- Descriptors

DnnDescriptor::DnnDescriptor(const Libraries& lib, cudnnBackendDescriptorType_t type) : lib_(&lib) {
  note(lib.cudnnBackendCreateDescriptor(type, &raw_));
}
DnnDescriptor::DnnDescriptor(DnnDescriptor&& other) noexcept
    : lib_(other.lib_), raw_(std::exchange(other.raw_, nullptr)), status_(std::move(other.status_)) {}
DnnDescriptor::~DnnDescriptor() {
  if (raw_ != nullptr) lib_->cudnnBackendDestroyDescriptor(raw_);
}

void DnnDescriptor::note(cudnnStatus_t result) {
  if (result == CUDNN_STATUS_SUCCESS || !status_.ok()) return;
  std::array<char, 512> text{};
  lib_->cudnnGetLastErrorString(text.data(), text.size());
  status_ = error(Code::kUnavailable, "[cuda] cuDNN refuses an operation: {} ({})",
                  lib_->cudnnGetErrorString(result), text.data());
}

void DnnDescriptor::set(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type,
                        std::int64_t count, const void* values) {
  if (status_.ok()) note(lib_->cudnnBackendSetAttribute(raw_, name, type, count, values));
}
void DnnDescriptor::set_ints(cudnnBackendAttributeName_t name, std::span<const std::int64_t> values) {
  set(name, CUDNN_TYPE_INT64, static_cast<std::int64_t>(values.size()), values.data());
}
void DnnDescriptor::set_descriptor(cudnnBackendAttributeName_t name, const DnnDescriptor& value) {
  set_one(name, CUDNN_TYPE_BACKEND_DESCRIPTOR, value.raw_);
}
void DnnDescriptor::finalize() {
  if (status_.ok()) note(lib_->cudnnBackendFinalize(raw_));
}
void DnnDescriptor::get(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, std::int64_t most,
                        std::int64_t* count, void* values) {
  if (status_.ok()) note(lib_->cudnnBackendGetAttribute(raw_, name, type, most, count, values));
}

// ---- Building

DnnDescriptor& DnnGraph::add(cudnnBackendDescriptorType_t type) {
  all_.push_back(std::make_unique<DnnDescriptor>(lib_, type));
  return *all_.back();
}

std::int64_t DnnGraph::add_tensor(cudnnDataType_t dtype, const Dims& dims, const Dims& strides,
                                  bool is_virtual, bool by_value) {
  DnnDescriptor& t = add(CUDNN_BACKEND_TENSOR_DESCRIPTOR);
  const auto id = static_cast<std::int64_t>(tensors_.size());
  t.set_one(CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, dtype);
  t.set_ints(CUDNN_ATTR_TENSOR_DIMENSIONS, dims);
  t.set_ints(CUDNN_ATTR_TENSOR_STRIDES, strides);
  t.set_one(CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, id);
  t.set_one(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, kAlignBytes);
  t.set_one(CUDNN_ATTR_TENSOR_IS_VIRTUAL, CUDNN_TYPE_BOOLEAN, is_virtual);
  t.set_one(CUDNN_ATTR_TENSOR_IS_BY_VALUE, CUDNN_TYPE_BOOLEAN, by_value);
  t.finalize();
  tensors_.push_back(&t);
  return id;
}

std::int64_t DnnGraph::tensor(DType dtype, const Dims& dims, const Dims& strides) {
  return add_tensor(data_type(dtype), dims, strides, false, false);
}
std::int64_t DnnGraph::between(cudnnDataType_t dtype, const Dims& dims, const Dims& strides) {
  return add_tensor(dtype, dims, strides, true, false);
}
std::int64_t DnnGraph::scalar(int rank) {
  const Dims ones(at(rank), 1);
  return add_tensor(CUDNN_DATA_FLOAT, ones, ones, false, true);
}

void DnnGraph::add_operation(DnnDescriptor& operation) {
  operation.finalize();
  operations_.push_back(operation.raw());
}

namespace {
// Names of a convolution's parts, which differ by pass only.
struct ConvNames {
  cudnnBackendDescriptorType_t type;
  cudnnBackendAttributeName_t window, x, filter, y, alpha, beta;
};
ConvNames conv_names(DnnPass pass) {
  switch (pass) {
    case DnnPass::input_grad:
      return {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA};
    case DnnPass::filter_grad:
      return {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA};
    default:
      return {CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR,
              CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC,
              CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X,
              CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W,
              CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y,
              CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA,
              CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA};
  }
}
}  // namespace

void DnnGraph::convolution(DnnPass pass, std::int64_t x, std::int64_t filter, std::int64_t y,
                           const DnnWindow& window, DType compute) {
  const std::int64_t sides = 2;
  DnnDescriptor& w = add(CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR);
  w.set_one(CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, CUDNN_TYPE_INT64, sides);
  w.set_one(CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, data_type(compute));
  w.set_one(CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_TYPE_CONVOLUTION_MODE, CUDNN_CROSS_CORRELATION);
  w.set_ints(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, window.pads_before);
  w.set_ints(CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, window.pads_after);
  w.set_ints(CUDNN_ATTR_CONVOLUTION_DILATIONS, window.dilations);
  w.set_ints(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, window.strides);
  w.finalize();
  const ConvNames names = conv_names(pass);
  DnnDescriptor& op = add(names.type);
  op.set_descriptor(names.window, w);
  op.set_descriptor(names.x, *tensors_[at(x)]);
  op.set_descriptor(names.filter, *tensors_[at(filter)]);
  op.set_descriptor(names.y, *tensors_[at(y)]);
  if (compute == DType::kF64) {
    op.set_one(names.alpha, CUDNN_TYPE_DOUBLE, 1.0);
    op.set_one(names.beta, CUDNN_TYPE_DOUBLE, 0.0);
  } else {
    op.set_one(names.alpha, CUDNN_TYPE_FLOAT, 1.0F);
    op.set_one(names.beta, CUDNN_TYPE_FLOAT, 0.0F);
  }
  add_operation(op);
}

void DnnGraph::pointwise(cudnnPointwiseMode_t mode, std::span<const std::int64_t> inputs, std::int64_t y,
                         cudnnDataType_t compute, std::int64_t axis) {
  DnnDescriptor& p = add(CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
  p.set_one(CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, mode);
  p.set_one(CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_TYPE_DATA_TYPE, compute);
  if (axis >= 0) p.set_one(CUDNN_ATTR_POINTWISE_AXIS, CUDNN_TYPE_INT64, axis);
  p.finalize();
  DnnDescriptor& op = add(CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
  op.set_descriptor(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, p);
  constexpr std::array kInputs{CUDNN_ATTR_OPERATION_POINTWISE_XDESC, CUDNN_ATTR_OPERATION_POINTWISE_BDESC,
                               CUDNN_ATTR_OPERATION_POINTWISE_TDESC};
  for (std::size_t i = 0; i < inputs.size(); ++i) op.set_descriptor(kInputs[i], *tensors_[at(inputs[i])]);
  op.set_descriptor(CUDNN_ATTR_OPERATION_POINTWISE_YDESC, *tensors_[at(y)]);
  add_operation(op);
}

void DnnGraph::matmul(std::int64_t a, std::int64_t b, std::int64_t c) {
  DnnDescriptor& m = add(CUDNN_BACKEND_MATMUL_DESCRIPTOR);
  m.set_one(CUDNN_ATTR_MATMUL_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, CUDNN_DATA_FLOAT);
  m.finalize();
  DnnDescriptor& op = add(CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR);
  op.set_descriptor(CUDNN_ATTR_OPERATION_MATMUL_ADESC, *tensors_[at(a)]);
  op.set_descriptor(CUDNN_ATTR_OPERATION_MATMUL_BDESC, *tensors_[at(b)]);
  op.set_descriptor(CUDNN_ATTR_OPERATION_MATMUL_CDESC, *tensors_[at(c)]);
  op.set_descriptor(CUDNN_ATTR_OPERATION_MATMUL_DESC, m);
  add_operation(op);
}

void DnnGraph::reduction(cudnnReduceTensorOp_t mode, std::int64_t x, std::int64_t y) {
  DnnDescriptor& r = add(CUDNN_BACKEND_REDUCTION_DESCRIPTOR);
  r.set_one(CUDNN_ATTR_REDUCTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, CUDNN_DATA_FLOAT);
  r.set_one(CUDNN_ATTR_REDUCTION_OPERATOR, CUDNN_TYPE_REDUCTION_OPERATOR_TYPE, mode);
  r.finalize();
  DnnDescriptor& op = add(CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR);
  op.set_descriptor(CUDNN_ATTR_OPERATION_REDUCTION_XDESC, *tensors_[at(x)]);
  op.set_descriptor(CUDNN_ATTR_OPERATION_REDUCTION_YDESC, *tensors_[at(y)]);
  op.set_descriptor(CUDNN_ATTR_OPERATION_REDUCTION_DESC, r);
  add_operation(op);
}

void DnnGraph::reshape(std::int64_t x, std::int64_t y) {
  DnnDescriptor& op = add(CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR);
  op.set_descriptor(CUDNN_ATTR_OPERATION_RESHAPE_XDESC, *tensors_[at(x)]);
  op.set_descriptor(CUDNN_ATTR_OPERATION_RESHAPE_YDESC, *tensors_[at(y)]);
  add_operation(op);
}

Status DnnGraph::first_failure() const {
  for (const auto& d : all_)
    if (!d->status().ok()) return d->status();
  return {};
}

}  // namespace trireme::kernel::cuda
