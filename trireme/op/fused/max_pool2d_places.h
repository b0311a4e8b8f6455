// Max pooling that keeps a byte per window for its gradient, which then needs neither x nor y: made by the
// pass `keep_places`.
//   max_pool2d_places       x -> y, places
//   max_pool2d_places_grad  (dy, places) -> dx
// places: u8 [N,C,OH,OW], row * window_w + column of the first maximum within its window.
#pragma once

#include "trireme/op/nn/pool2d.h"

namespace trireme::op {

extern const OpDef kMaxPool2dPlaces, kMaxPool2dPlacesGrad;

namespace detail {

inline constexpr std::int64_t kMostPlaces = 49;  // elements of a window
bool has_places(const PoolGeometry& g);

}  // namespace detail
}  // namespace trireme::op
