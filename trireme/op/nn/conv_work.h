// Work and depth of a convolution by the method that computes it, after the table of Ben-Nun and Hoefler,
// "Demystifying Parallel and Distributed Deep Learning" (2018), section on convolutional layers.
//
// With N samples, Cin and Cout channels (per group: Cin is what one output channel reads), H x W inputs,
// H' x W' outputs, Ky x Kx filters:
//
//   direct, im2col  W = N Cout H' W' Cin Ky Kx                D = lg Cin + lg Ky + lg Kx
//   FFT             W = c HW log2(HW) (Cout Cin + N Cin + N Cout) + HW N Cin Cout
//                                                             D = 2 lg HW + lg Cin
//   Winograd        F(m x m, r x r), alpha = m + r - 1, P = N ceil(H'/m) ceil(W'/m) tiles
//                   W = alpha^2 Cin Cout P                    products of transformed tiles
//                     + alpha (r^2 + alpha r) Cin Cout        G g G^T for every filter
//                     + 2 alpha^3 Cin P                       B^T d B for every tile of every input channel
//                     + alpha (alpha m + m^2) Cout P          A^T t A for every tile of every output channel
//                                                             D = 2 lg r + 4 lg alpha + lg Cin
//
// lg is ceil(log2). The table prints alpha = m - r + 1 and leaves out alpha^2; Lavin and Gray, "Fast
// Algorithms for Convolutional Neural Networks" (2016), have m + r - 1 and alpha^2 products per tile. Tiles
// cover the output, so P counts H' and W' (the table's H and W are of a convolution that keeps the size).
#pragma once

#include "trireme/op/nn/conv2d.h"

namespace trireme::op::detail {

enum class ConvMethod { direct, im2col, fft, winograd };

// Each pass does the same products and sums them over other indices: y over (Cin, Ky, Kx), dx over
// (Cout, Ky, Kx), the filter gradient over (N, H', W').
enum class ConvPass { forward, input_grad, filter_grad };

// Real operations per point and level of a radix-2 transform: the c of the table.
inline constexpr double kFftOpsPerPoint = 5;
inline constexpr std::int64_t kWinogradTile = 4;  // m; r is the larger side of the filter

// Work and depth only; depth is at least 1 where there is work. FFT and Winograd are given for the forward
// pass.
cost::OpCost conv_work(ConvMethod method, const ConvGeometry& g, ConvPass pass = ConvPass::forward);

// The attribute `method`. "auto" counts as direct; fft, which has no kernel, is refused.
Result<ConvMethod> conv_method(std::string_view name);

// The whole cost of one of the three ops.
cost::OpCost conv_cost(const ConvGeometry& g, ConvPass pass, ConvMethod method, double bytes);

}  // namespace trireme::op::detail
