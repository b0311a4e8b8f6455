// The sets of loops, one per instruction set (loops_<set>.cc).
#pragma once

#include "trireme/kernel/cpu/simd/cell_loops.h"
#include "trireme/kernel/cpu/simd/channel_loops.h"
#include "trireme/kernel/cpu/simd/functions.h"
#include "trireme/kernel/cpu/simd/loops.h"
#include "trireme/kernel/cpu/simd/misc_loops.h"
#include "trireme/kernel/cpu/simd/row_loops.h"
#include "trireme/kernel/cpu/simd/update_loops.h"
#include "trireme/kernel/cpu/simd/winograd_loops.h"

// A VectorLoops made of the functions that loops.inc defined in namespace `set`.
#define TR_VECTOR_LOOPS(set)                                                                                 \
  {                                                                                                          \
    .isa = #set, .add = set::add, .sub = set::sub, .mul = set::mul, .relu_grad = set::relu_grad,             \
    .scale = set::scale, .add_scalar = set::add_scalar, .relu = set::relu, .sum = set::sum, .sgd = set::sgd, \
    .momentum = set::momentum, .f32_to_bf16 = set::f32_to_bf16, .bf16_to_f32 = set::bf16_to_f32,             \
    .f32_to_f16 = set::f32_to_f16, .f16_to_f32 = set::f16_to_f32, .copy_rows = set::copy_rows,               \
    .max_pool2 = set::max_pool2, .max_pool2_grad = set::max_pool2_grad,                                      \
    .max_pool2_places = set::max_pool2_places, .max_pool2_places_grad = set::max_pool2_places_grad,          \
    .column_winners = set::column_winners, .window_winners = set::window_winners                             \
  }

// The same for functions.inc and row_loops.inc.
#define TR_BINARY_SET(set, name) \
  { set::name##_pairs, set::name##_right, set::name##_left }
#define TR_FUNCTION_LOOPS(set)                                                                          \
  {                                                                                                     \
    .exp = set::exp_loop, .tanh = set::tanh_loop, .sigmoid = set::sigmoid_loop, .silu = set::silu_loop, \
    .erf = set::erf_loop, .log = set::log_loop, .softplus = set::softplus_loop, .gelu = set::gelu_loop, \
    .gelu_tanh = set::gelu_tanh_loop, .abs = set::abs_loop, .neg = set::neg_loop,                       \
    .reciprocal = set::reciprocal_loop, .rsqrt = set::rsqrt_loop, .sqrt = set::sqrt_loop,               \
    .square = set::square_loop, .add = TR_BINARY_SET(set, add2), .sub = TR_BINARY_SET(set, sub2),       \
    .mul = TR_BINARY_SET(set, mul2), .div = TR_BINARY_SET(set, div2),                                   \
    .maximum = TR_BINARY_SET(set, maximum2), .minimum = TR_BINARY_SET(set, minimum2),                   \
    .squared_difference = TR_BINARY_SET(set, squared_difference2)                                       \
  }
#define TR_ROW_LOOPS(set)                                                                        \
  {                                                                                              \
    .norm = set::norm, .norm_grad = set::norm_grad, .norm_param_grad = set::norm_param_grad,     \
    .sum_off_squares = set::sum_off_squares, .affine = set::affine, .dot_off = set::dot_off,     \
    .affine_grad = set::affine_grad, .softmax = set::softmax, .softmax_grad = set::softmax_grad, \
    .shifted_exp = set::shifted_exp                                                              \
  }
#define TR_UPDATE_LOOPS(set)                                                                \
  {                                                                                         \
    .adam = set::adam, .rmsprop = set::rmsprop, .adagrad = set::adagrad, .lars = set::lars, \
    .sum_of_squares = set::sum_of_squares                                                   \
  }
#define TR_CELL_LOOPS(set)                                                                          \
  {                                                                                                 \
    .rnn_tanh = {set::rnn_tanh_step, set::rnn_tanh_back},                                           \
    .rnn_relu = {set::rnn_relu_step, set::rnn_relu_back}, .lstm = {set::lstm_step, set::lstm_back}, \
    .gru = {set::gru_step, set::gru_back}, .low_lstm = {set::low_lstm_step, set::low_lstm_back},    \
  }
#define TR_MISC_LOOPS(set)                                                                               \
  {                                                                                                      \
    .dropout = set::dropout, .is_first_maximum = set::is_first_maximum, .add_squares = set::add_squares, \
    .response = set::response                                                                            \
  }
#define TR_WINOGRAD_FORM(set, form)                                                                     \
  {                                                                                                     \
    .taps = set::form::kTaps, .side = set::form::kSide, .gather = set::gather, .scatter = set::scatter, \
    .data = set::data<set::form>, .spread = set::spread<set::form>, .result = set::result<set::form>,   \
    .filter = set::filter_forth<set::form>, .filter_back = set::filter_back<set::form>,                 \
    .product = set::kProduct                                                                            \
  }
#define TR_WINOGRAD_SET(set) \
  { .three = TR_WINOGRAD_FORM(set, Three), .five = TR_WINOGRAD_FORM(set, Five) }
#define TR_CHANNEL_LOOPS(set)                                                                         \
  {                                                                                                   \
    .sums = {set::sums_f, set::sums_h}, .moments = {set::moments_f, set::moments_h},                  \
    .normalise = set::normalise, .grad_sums = set::grad_sums, .normalise_grad = set::normalise_grad,  \
    .join_sums = set::join_sums, .join_moments = set::join_moments, .compete = set::compete,          \
    .window_winners = set::pooled_winners, .take_where = set::take_where, .add_where = set::add_where \
  }

namespace trireme::kernel {
extern const VectorLoops kBaselineLoops;
extern const FunctionLoops kBaselineFunctions;
extern const RowLoops kBaselineRows;
extern const UpdateLoops kBaselineUpdates;
extern const CellSet kBaselineCells;
extern const MiscLoops kBaselineMisc;
extern const WinogradSet kBaselineWinograd;
extern const ChannelLoops kBaselineChannels;
#ifdef __x86_64__
extern const VectorLoops kAvx2Loops, kAvx512Loops;
extern const FunctionLoops kAvx2Functions, kAvx512Functions;
extern const RowLoops kAvx2Rows, kAvx512Rows;
extern const UpdateLoops kAvx2Updates, kAvx512Updates;
extern const CellSet kAvx2Cells, kAvx512Cells;
extern const MiscLoops kAvx2Misc, kAvx512Misc;
extern const WinogradSet kAvx2Winograd, kAvx512Winograd;
extern const ChannelLoops kAvx2Channels, kAvx512Channels;
#endif
}  // namespace trireme::kernel
