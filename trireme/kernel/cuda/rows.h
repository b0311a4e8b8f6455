// The make functions of all rows in table.cc, one block per file.
#pragma once

#include "trireme/kernel/cuda/cuda.h"

namespace trireme::kernel::cuda {

using Made = Result<std::unique_ptr<CudaKernel>>;

// elementwise, fused, array, embedding
Made make_elementwise(const CudaQuery& q);
Made make_bias_add(const CudaQuery& q);
Made make_cast_all(const CudaQuery& q);
Made make_fused(const CudaQuery& q);
Made make_fused_bias_grad(const CudaQuery& q);
Made make_same_elements(const CudaQuery& q);
Made make_broadcast_to(const CudaQuery& q);
Made make_transpose(const CudaQuery& q);
Made make_tile(const CudaQuery& q);
Made make_reverse(const CudaQuery& q);
Made make_slice(const CudaQuery& q);
Made make_slice_grad(const CudaQuery& q);
Made make_pad(const CudaQuery& q);
Made make_concat(const CudaQuery& q);
Made make_split(const CudaQuery& q);
Made make_fill(const CudaQuery& q);
Made make_constant(const CudaQuery& q);
Made make_known(const CudaQuery& q);
Made make_range(const CudaQuery& q);
Made make_one_hot(const CudaQuery& q);
Made make_cumsum(const CudaQuery& q);
Made make_gather(const CudaQuery& q);
Made make_take_part(const CudaQuery& q);
Made make_part_begin(const CudaQuery& q);
Made make_embedding(const CudaQuery& q);
Made make_embedding_grad(const CudaQuery& q);
Made make_scatter_add(const CudaQuery& q);
Made make_bias_grad(const CudaQuery& q);

// reduce, norm, softmax, loss, update, random
Made make_reduce(const CudaQuery& query);
Made make_arg_reduce(const CudaQuery& query);
Made make_softmax(const CudaQuery& query);
Made make_softmax_cross_entropy(const CudaQuery& query);
Made make_softmax_cross_entropy_grad(const CudaQuery& query);
Made make_softmax_cross_entropy_step(const CudaQuery& query);
Made make_correct(const CudaQuery& query);
Made make_squared_error(const CudaQuery& query);
Made make_squared_error_grad(const CudaQuery& query);
Made make_layer_norm(const CudaQuery& query);
Made make_layer_norm_grad(const CudaQuery& query);
Made make_layer_norm_grad_sum(const CudaQuery& query);
Made make_residual_layer_norm(const CudaQuery& query);
Made make_batch_norm(const CudaQuery& query);
Made make_batch_norm_grad(const CudaQuery& query);
Made make_batch_norm_inference(const CudaQuery& query);
Made make_all_finite(const CudaQuery& query);
Made make_update_loss_scale(const CudaQuery& query);
Made make_apply_sgd(const CudaQuery& query);
Made make_apply_momentum(const CudaQuery& query);
Made make_apply_adagrad(const CudaQuery& query);
Made make_apply_rmsprop(const CudaQuery& query);
Made make_apply_adam(const CudaQuery& query);
Made make_apply_lars(const CudaQuery& query);
Made make_apply_running(const CudaQuery& query);
Made make_assign(const CudaQuery& query);
Made make_generator(const CudaQuery& query);
Made make_dropout(const CudaQuery& query);
Made make_dropout_part(const CudaQuery& query);
Made make_permutation(const CudaQuery& query);
Made make_shuffle(const CudaQuery& query);

// matmul, conv, attention
Made make_matmul(const CudaQuery& q);
Made make_matmul_bias_act(const CudaQuery& q);
Made make_conv2d(const CudaQuery& q);
Made make_conv2d_input_grad(const CudaQuery& q);
Made make_conv2d_filter_grad(const CudaQuery& q);
Made make_conv2d_transpose(const CudaQuery& q);
Made make_conv2d_direct(const CudaQuery& q);
Made make_conv2d_input_grad_direct(const CudaQuery& q);
Made make_conv2d_filter_grad_direct(const CudaQuery& q);
Made make_conv2d_transpose_direct(const CudaQuery& q);
Made make_conv2d_bias_act(const CudaQuery& q);
Made make_attention(const CudaQuery& q);
Made make_attention_grad(const CudaQuery& q);
bool attention_fuses(const CudaQuery& q);
bool attention_grad_fuses(const CudaQuery& q);
Made make_attention_fused(const CudaQuery& q);
Made make_attention_grad_fused(const CudaQuery& q);
bool attention_qkv_fuses(const CudaQuery& q);
bool attention_qkv_grad_fuses(const CudaQuery& q);
Made make_attention_qkv_fused(const CudaQuery& q);
Made make_attention_qkv_grad_fused(const CudaQuery& q);
Made make_attention_qkv(const CudaQuery& q);
Made make_attention_qkv_grad(const CudaQuery& q);

// pool, window, recurrent, linalg
Made make_max_pool2d(const CudaQuery& query);
Made make_max_pool2d_grad(const CudaQuery& query);
Made make_max_pool2d_grad_grad(const CudaQuery& query);
Made make_max_pool2d_places(const CudaQuery& query);
Made make_max_pool2d_places_grad(const CudaQuery& query);
Made make_avg_pool2d(const CudaQuery& query);
Made make_avg_pool2d_grad(const CudaQuery& query);
Made make_l2_pool2d(const CudaQuery& query);
Made make_window_sum(const CudaQuery& query);
Made make_local_response_norm(const CudaQuery& query);
Made make_gaussian_blur2d(const CudaQuery& query);
Made make_local_contrast_norm(const CudaQuery& query);
Made make_locally_connected2d(const CudaQuery& query);
Made make_locally_connected2d_input_grad(const CudaQuery& query);
Made make_locally_connected2d_filter_grad(const CudaQuery& query);
Made make_inverse(const CudaQuery& query);
Made make_determinant(const CudaQuery& query);
Made make_recurrent(const CudaQuery& query);  // rnn, lstm, gru, recurrent_kept and their gradients
Made make_recurrent_dnn(const CudaQuery& query);

}  // namespace trireme::kernel::cuda
