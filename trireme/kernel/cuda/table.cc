// All CUDA kernels, fastest first for each op. One block of rows per file.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "trireme/kernel/cuda/cuda.h"
#include "trireme/kernel/cuda/device/device.h"
#include "trireme/kernel/cuda/rows.h"

namespace trireme::kernel::cuda {

// clang-format off
std::span<const CudaRow> cuda_kernels() {
  static constexpr CudaRow kRows[] = {
      // elementwise, fused, array, embedding
      {"abs", "nvrtc", &make_elementwise},
      {"add", "nvrtc", &make_elementwise},
      {"cast", "nvrtc", &make_elementwise},
      {"ceil", "nvrtc", &make_elementwise},
      {"clip", "nvrtc", &make_elementwise},
      {"cos", "nvrtc", &make_elementwise},
      {"div", "nvrtc", &make_elementwise},
      {"elu", "nvrtc", &make_elementwise},
      {"equal", "nvrtc", &make_elementwise},
      {"erf", "nvrtc", &make_elementwise},
      {"exp", "nvrtc", &make_elementwise},
      {"expm1", "nvrtc", &make_elementwise},
      {"floor", "nvrtc", &make_elementwise},
      {"gelu", "nvrtc", &make_elementwise},
      {"gelu_grad", "nvrtc", &make_elementwise},
      {"greater", "nvrtc", &make_elementwise},
      {"greater_equal", "nvrtc", &make_elementwise},
      {"is_finite", "nvrtc", &make_elementwise},
      {"is_nan", "nvrtc", &make_elementwise},
      {"leaky_relu", "nvrtc", &make_elementwise},
      {"less", "nvrtc", &make_elementwise},
      {"less_equal", "nvrtc", &make_elementwise},
      {"log", "nvrtc", &make_elementwise},
      {"log1p", "nvrtc", &make_elementwise},
      {"logical_and", "nvrtc", &make_elementwise},
      {"logical_not", "nvrtc", &make_elementwise},
      {"logical_or", "nvrtc", &make_elementwise},
      {"maximum", "nvrtc", &make_elementwise},
      {"minimum", "nvrtc", &make_elementwise},
      {"mul", "nvrtc", &make_elementwise},
      {"neg", "nvrtc", &make_elementwise},
      {"not_equal", "nvrtc", &make_elementwise},
      {"pow", "nvrtc", &make_elementwise},
      {"reciprocal", "nvrtc", &make_elementwise},
      {"relu", "nvrtc", &make_elementwise},
      {"relu_grad", "nvrtc", &make_elementwise},
      {"round", "nvrtc", &make_elementwise},
      {"rsqrt", "nvrtc", &make_elementwise},
      {"scale", "nvrtc", &make_elementwise},
      {"select", "nvrtc", &make_elementwise},
      {"sigmoid", "nvrtc", &make_elementwise},
      {"sign", "nvrtc", &make_elementwise},
      {"silu", "nvrtc", &make_elementwise},
      {"sin", "nvrtc", &make_elementwise},
      {"softplus", "nvrtc", &make_elementwise},
      {"sqrt", "nvrtc", &make_elementwise},
      {"square", "nvrtc", &make_elementwise},
      {"squared_difference", "nvrtc", &make_elementwise},
      {"sub", "nvrtc", &make_elementwise},
      {"tanh", "nvrtc", &make_elementwise},
      {"bias_add", "nvrtc", &make_bias_add, nullptr, true},
      {"cast_all", "nvrtc", &make_cast_all},
      {"fused", "nvrtc", &make_fused},
      {"fused_bias_grad", "nvrtc", &make_fused_bias_grad},
      {"reshape", "nvrtc", &make_same_elements},
      {"stop_gradient", "nvrtc", &make_same_elements},
      {"fill", "nvrtc", &make_fill},
      {"fill_like", "nvrtc", &make_fill},
      {"constant", "nvrtc", &make_constant},
      {"count", "nvrtc", &make_known},
      {"shape", "nvrtc", &make_known},
      {"size", "nvrtc", &make_known},
      {"rank", "nvrtc", &make_known},
      {"broadcast_to", "nvrtc", &make_broadcast_to, nullptr, true},
      {"transpose", "nvrtc", &make_transpose, nullptr, true},
      {"tile", "nvrtc", &make_tile, nullptr, true},
      {"reverse", "nvrtc", &make_reverse, nullptr, true},
      {"slice", "nvrtc", &make_slice, nullptr, true},
      {"slice_grad", "nvrtc", &make_slice_grad, nullptr, true},
      {"pad", "nvrtc", &make_pad},
      {"concat", "nvrtc", &make_concat, nullptr, true},
      {"split", "nvrtc", &make_split, nullptr, true},
      {"range", "nvrtc", &make_range},
      {"one_hot", "nvrtc", &make_one_hot},
      {"cumsum", "nvrtc", &make_cumsum},
      {"take_part", "nvrtc", &make_take_part},
      {"part_begin", "nvrtc", &make_part_begin},
      {"gather", "nvrtc", &make_gather, nullptr, true},
      {"embedding", "nvrtc", &make_embedding, nullptr, true},
      {"embedding_grad", "nvrtc", &make_embedding_grad, nullptr, true},
      {"scatter_add", "nvrtc", &make_scatter_add, nullptr, true},
      {"bias_grad", "nvrtc", &make_bias_grad, nullptr, true},

      // reduce, norm, softmax, loss, update, random
      {"sum", "nvrtc", &make_reduce, nullptr, true},
      {"mean", "nvrtc", &make_reduce, nullptr, true},
      {"max", "nvrtc", &make_reduce, nullptr, true},
      {"min", "nvrtc", &make_reduce, nullptr, true},
      {"prod", "nvrtc", &make_reduce, nullptr, true},
      {"all", "nvrtc", &make_reduce},
      {"any", "nvrtc", &make_reduce},
      {"logsumexp", "nvrtc", &make_reduce, nullptr, true},
      {"argmax", "nvrtc", &make_arg_reduce},
      {"argmin", "nvrtc", &make_arg_reduce},
      {"softmax", "nvrtc", &make_softmax},
      {"softmax_cross_entropy", "nvrtc", &make_softmax_cross_entropy, nullptr, true},
      {"softmax_cross_entropy_grad", "nvrtc", &make_softmax_cross_entropy_grad, nullptr, true},
      {"softmax_cross_entropy_step", "nvrtc", &make_softmax_cross_entropy_step, nullptr, true},
      {"correct", "nvrtc", &make_correct, nullptr, true},
      {"squared_error", "nvrtc", &make_squared_error},
      {"squared_error_grad", "nvrtc", &make_squared_error_grad},
      {"layer_norm", "nvrtc", &make_layer_norm, nullptr, true},
      {"layer_norm_grad", "nvrtc", &make_layer_norm_grad, nullptr, true},
      {"layer_norm_grad_sum", "nvrtc", &make_layer_norm_grad_sum, nullptr, true},
      {"residual_layer_norm", "nvrtc", &make_residual_layer_norm, nullptr, true},
      {"batch_norm", "nvrtc", &make_batch_norm, nullptr, true},
      {"batch_norm_grad", "nvrtc", &make_batch_norm_grad, nullptr, true},
      {"batch_norm_relu", "nvrtc", &make_batch_norm, nullptr, true},
      {"batch_norm_relu_grad", "nvrtc", &make_batch_norm_grad, nullptr, true},
      {"batch_norm_add_relu_grad", "nvrtc", &make_batch_norm_grad, nullptr, true},
      {"batch_norm_inference", "nvrtc", &make_batch_norm_inference, nullptr, true},
      {"all_finite", "nvrtc", &make_all_finite},
      {"update_loss_scale", "nvrtc", &make_update_loss_scale},
      {"apply_sgd", "nvrtc", &make_apply_sgd},
      {"apply_momentum", "nvrtc", &make_apply_momentum},
      {"apply_adagrad", "nvrtc", &make_apply_adagrad},
      {"apply_rmsprop", "nvrtc", &make_apply_rmsprop},
      {"apply_adam", "nvrtc", &make_apply_adam},
      {"apply_lars", "nvrtc", &make_apply_lars},
      {"assign", "nvrtc", &make_assign},
      {"dropout", "nvrtc", &make_dropout, nullptr, true},
      {"dropout_part", "nvrtc", &make_dropout_part, nullptr, true},
      {"permutation", "nvrtc", &make_permutation},
      {"shuffle", "nvrtc", &make_shuffle},
      {"log_softmax", "nvrtc", &make_softmax},
      {"apply_adamw", "nvrtc", &make_apply_adam},
      {"apply_running_average", "nvrtc", &make_apply_running},
      {"apply_running_variance", "nvrtc", &make_apply_running},
      {"assign_add", "nvrtc", &make_assign},
      {"uniform", "nvrtc", &make_generator},
      {"normal", "nvrtc", &make_generator},
      {"bernoulli", "nvrtc", &make_generator},

      // matmul, conv, attention
      {"matmul", "cublaslt", &make_matmul, nullptr, true},
      {"matmul_bias_act", "cublaslt", &make_matmul_bias_act},
      {"conv2d", "cudnn", &make_conv2d, nullptr, false, true},
      {"conv2d_input_grad", "cudnn", &make_conv2d_input_grad, nullptr, false, true},
      {"conv2d_filter_grad", "cudnn", &make_conv2d_filter_grad, nullptr, false, true},
      {"conv2d_transpose", "cudnn", &make_conv2d_transpose},
      {"conv2d", "nvrtc", &make_conv2d_direct, nullptr, false, true},
      {"conv2d_input_grad", "nvrtc", &make_conv2d_input_grad_direct, nullptr, false, true},
      {"conv2d_filter_grad", "nvrtc", &make_conv2d_filter_grad_direct, nullptr, false, true},
      {"conv2d_transpose", "nvrtc", &make_conv2d_transpose_direct},
      {"conv2d_bias_act", "cudnn", &make_conv2d_bias_act, nullptr, false, true},
      {"attention", "cudnn", &make_attention_fused, &attention_fuses},
      {"attention_grad", "cudnn", &make_attention_grad_fused, &attention_grad_fuses},
      {"attention", "cublaslt", &make_attention},
      {"attention_grad", "cublaslt", &make_attention_grad},
      {"attention_part", "cublaslt", &make_attention},
      {"attention_part_grad", "cublaslt", &make_attention_grad},
      {"attention_qkv", "cudnn", &make_attention_qkv_fused, &attention_qkv_fuses},
      {"attention_qkv_grad", "cudnn", &make_attention_qkv_grad_fused, &attention_qkv_grad_fuses},
      {"attention_qkv", "nvrtc", &make_attention_qkv},
      {"attention_qkv_grad", "nvrtc", &make_attention_qkv_grad},

      // pool, window, recurrent, linalg
      {"max_pool2d", "nvrtc", &make_max_pool2d, nullptr, true, true},
      {"max_pool2d_grad", "nvrtc", &make_max_pool2d_grad, nullptr, true, true},
      {"max_pool2d_places", "nvrtc", &make_max_pool2d_places, nullptr, true, true},
      {"max_pool2d_places_grad", "nvrtc", &make_max_pool2d_places_grad, nullptr, true, true},
      {"max_pool2d_grad_grad", "nvrtc", &make_max_pool2d_grad_grad, nullptr, true, true},
      {"avg_pool2d", "nvrtc", &make_avg_pool2d, nullptr, true, true},
      {"avg_pool2d_grad", "nvrtc", &make_avg_pool2d_grad, nullptr, true, true},
      {"l2_pool2d", "nvrtc", &make_l2_pool2d, nullptr, true, true},
      {"window_sum", "nvrtc", &make_window_sum, nullptr, true},
      {"local_response_norm", "nvrtc", &make_local_response_norm, nullptr, true},
      {"gaussian_blur2d", "nvrtc", &make_gaussian_blur2d},
      {"local_contrast_norm", "nvrtc", &make_local_contrast_norm},
      {"locally_connected2d", "nvrtc", &make_locally_connected2d},
      {"locally_connected2d_input_grad", "nvrtc", &make_locally_connected2d_input_grad},
      {"locally_connected2d_filter_grad", "nvrtc", &make_locally_connected2d_filter_grad},
      {"inverse", "nvrtc", &make_inverse},
      {"determinant", "nvrtc", &make_determinant},
      {"rnn", "cudnn", &make_recurrent_dnn, &recurrence_fits},
      {"rnn_grad", "cudnn", &make_recurrent_dnn, &recurrence_fits},
      {"lstm", "cudnn", &make_recurrent_dnn, &recurrence_fits},
      {"lstm_grad", "cudnn", &make_recurrent_dnn, &recurrence_fits},
      {"gru", "cudnn", &make_recurrent_dnn, &recurrence_fits},
      {"gru_grad", "cudnn", &make_recurrent_dnn, &recurrence_fits},
      {"rnn", "nvrtc", &make_recurrent},
      {"rnn_grad", "nvrtc", &make_recurrent},
      {"lstm", "nvrtc", &make_recurrent},
      {"lstm_grad", "nvrtc", &make_recurrent},
      {"gru", "nvrtc", &make_recurrent},
      {"gru_grad", "nvrtc", &make_recurrent},
      {"recurrent_kept", "cudnn", &make_recurrent_dnn, &recurrence_fits},
      {"recurrent_kept_grad", "cudnn", &make_recurrent_dnn, &recurrence_fits},
      {"recurrent_kept", "nvrtc", &make_recurrent},
      {"recurrent_kept_grad", "nvrtc", &make_recurrent},

      {nullptr, nullptr, nullptr, nullptr},
  };
  return std::span(kRows).first(std::size(kRows) - 1);
}
// clang-format on

namespace {

bool takes(const CudaRow& row, const CudaQuery& query) {
  return !query.mixed_orders && (row.adaptable || !query.casts) &&
         (row.channels_last || !query.channels_last);
}

bool applies(const CudaRow& row, const CudaQuery& query) {
  return row.op == query.def.name && takes(row, query) &&
         (row.applicable == nullptr || row.applicable(query));
}

std::string types_text(std::span<const TensorType> types) {
  std::string text;
  for (const TensorType& t : types) text += fmt::format("{}{}", text.empty() ? "" : ", ", t.to_string());
  return text;
}

}  // namespace

Result<const CudaRow*> choose_cuda_kernel(const CudaQuery& query, std::string_view wanted) {
  for (const CudaRow& row : cuda_kernels())
    if ((wanted.empty() || row_of(wanted) == row.name) && applies(row, query)) return &row;
  if (wanted.empty())
    return error(Code::kNotFound,
                 "[kernel] op {} has no CUDA kernel for ({}); train with --device cpu, or leave the op out",
                 query.def.name, types_text(query.inputs));
  return error(Code::kNotFound,
               "[kernel] CUDA kernel of op {}: \"{}\" is not here or does not apply; make the plan anew on "
               "this machine",
               query.def.name, wanted);
}

Result<std::shared_ptr<CudaDevice>> open_device(int ordinal) { return CudaDevice::open(ordinal); }

CudaDevice* as_cuda(Device* device) {
  return device != nullptr && device->kind() == DeviceKind::kCuda ? static_cast<CudaDevice*>(device)
                                                                  : nullptr;
}
Device& as_device(CudaDevice& device) { return device; }
std::size_t peak_bytes(const CudaDevice& device) { return device.peak_bytes(); }

std::string cuda_kernel_library(const CudaDevice& device) {
  const Libraries& lib = device.lib();
  int driver = 0, major = 0, minor = 0;
  lib.cuDriverGetVersion(&driver);
  lib.nvrtcVersion(&major, &minor);
  return fmt::format("cuda={}.{} nvrtc={}.{} cublaslt={} cudnn={} gpu={}", driver / 1000, driver % 1000 / 10,
                     major, minor, lib.cublasLtGetVersion(), lib.cudnnGetVersion(), device.facts().name);
}

}  // namespace trireme::kernel::cuda
