#include "trireme/op/nn/conv_work.h"

#include <algorithm>
#include <cmath>

namespace trireme::op::detail {
namespace {
double real(std::int64_t v) { return static_cast<double>(v); }
double lg(std::int64_t n) { return n > 1 ? std::ceil(std::log2(real(n))) : 0; }
std::int64_t tiles(std::int64_t size, std::int64_t tile) { return (size + tile - 1) / tile; }

cost::OpCost products(const ConvGeometry& g, ConvPass pass) {
  const double work = real(g.n * g.o) * real(g.oh * g.ow) * real(g.cg * g.kh) * real(g.kw);
  switch (pass) {
    case ConvPass::forward:
      return {.work = work, .depth = lg(g.cg) + lg(g.kh) + lg(g.kw)};
    case ConvPass::input_grad:
      return {.work = work, .depth = lg(g.o / g.groups) + lg(g.kh) + lg(g.kw)};
    default:
      return {.work = work, .depth = lg(g.n) + lg(g.oh) + lg(g.ow)};
  }
}

cost::OpCost fft(const ConvGeometry& g) {
  const double hw = real(g.h * g.w), transforms = real(g.o * g.cg) + real(g.n * g.c) + real(g.n * g.o);
  const double levels = hw > 0 ? std::log2(hw) : 0;
  return {.work = kFftOpsPerPoint * hw * levels * transforms + hw * real(g.n) * real(g.cg * g.o),
          .depth = 2 * lg(g.h * g.w) + lg(g.cg)};
}

cost::OpCost winograd(const ConvGeometry& g) {
  const std::int64_t tile = kWinogradTile, side = std::max(g.kh, g.kw);
  const double m = real(tile), r = real(side), alpha = m + r - 1;
  const double p = real(g.n) * real(tiles(g.oh, tile) * tiles(g.ow, tile)), filters = real(g.cg * g.o);
  return {.work = alpha * alpha * filters * p + alpha * (r * r + alpha * r) * filters +
                  2 * alpha * alpha * alpha * real(g.c) * p + alpha * (alpha * m + m * m) * real(g.o) * p,
          .depth = 2 * lg(side) + 4 * lg(tile + side - 1) + lg(g.cg)};
}
}  // namespace

cost::OpCost conv_work(ConvMethod method, const ConvGeometry& g, ConvPass pass) {
  cost::OpCost cost = method == ConvMethod::fft        ? fft(g)
                      : method == ConvMethod::winograd ? winograd(g)
                                                       : products(g, pass);
  cost.depth = cost.work > 0 ? std::max(cost.depth, 1.0) : 0;
  return cost;
}

Result<ConvMethod> conv_method(std::string_view name) {
  if (name == "auto" || name == "direct") return ConvMethod::direct;
  if (name == "im2col") return ConvMethod::im2col;
  if (name == "winograd") return ConvMethod::winograd;
  return error(Code::kInvalid, "attribute 'method': got '{}'{}, expected auto, direct, im2col or winograd",
               name, name == "fft" ? ", which has no kernel yet" : "");
}

cost::OpCost conv_cost(const ConvGeometry& g, ConvPass pass, ConvMethod method, double bytes) {
  cost::OpCost cost = conv_work(method, g, pass);
  cost.flops = g.flops();
  cost.bytes = bytes;
  return cost;
}

}  // namespace trireme::op::detail
