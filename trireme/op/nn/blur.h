// A Gaussian window, shared by gaussian_blur2d and local_contrast_norm.
//
// G[u][v] is proportional to exp(-(u^2 + v^2) / (2 sigma^2)) for |u|, |v| <= window / 2 and sums to 1.
// Outside the image there are zeros, and weights are not made larger for it: the blur is a symmetric matrix.
#pragma once

#include "trireme/op/detail/dispatch.h"
#include "trireme/op/detail/infer.h"
#include "trireme/op/nn/cut_windows.h"

namespace trireme::op::detail {

std::vector<AttrSpec> blur_attrs();                           // window, sigma
Status expect_blur(const TensorType& x, const Attrs& attrs);  // x [N,C,H,W], an odd window
// One side of the window: G[u][v] = row[u] row[v].
std::vector<double> blur_row(const Attrs& attrs);
// The blur of planes of which rows (dimension 2) or columns are cut, with window and sigma of `attrs`.
Value cut_blur(CutBuilder& b, Value x, int dim, const Attrs& attrs);
// Pairs of a pixel and a tap inside an h x w image.
double blur_taps(std::int64_t h, std::int64_t w, std::int64_t window);

// Element (i, j) of the blur of an h x w plane whose element (i, j) is at(i, j).
template <typename A, typename At>
A blur_at(std::span<const double> row, std::int64_t h, std::int64_t w, std::int64_t i, std::int64_t j,
          At&& at) {
  const std::int64_t half = static_cast<std::int64_t>(row.size()) / 2;
  const std::int64_t top = std::max<std::int64_t>(i - half, 0), bottom = std::min(i + half + 1, h);
  const std::int64_t left = std::max<std::int64_t>(j - half, 0), right = std::min(j + half + 1, w);
  A total = 0;
  for (std::int64_t r = top; r < bottom; ++r) {
    for (std::int64_t c = left; c < right; ++c) {
      total += static_cast<A>(row[idx(r - i + half)] * row[idx(c - j + half)]) * static_cast<A>(at(r, c));
    }
  }
  return total;
}

}  // namespace trireme::op::detail
