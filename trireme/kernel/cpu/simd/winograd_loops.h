// Steps of Winograd's F(4x4, 3x3) and F(4x4, 5x5), 16 channels side by side. Compiled and chosen like the
// loops of loops.h, with the same bits on every instruction set.
//
// A *pixel* is 16 channels of one place, 16 floats. A *tile* covers 4 x 4 outputs and reads side x side
// inputs, 6 x 6 or 8 x 8; its transform has as many components, each a pixel, `stride` elements apart.
#pragma once

#include <cstdint>

namespace trireme::kernel {

inline constexpr std::int64_t kPixel = 16;  // channels

// c [m, n] = a b, or c + a b; n a multiple of 16, a(i, j) at a[i a_row + j a_step], the others dense. For b
// of a few thousand elements, where a library takes longer to begin than to multiply.
struct SmallProduct {
  std::int64_t m, n, k;
  const float* a;
  std::int64_t a_row, a_step;
  const float* b;
  bool add;
  float* c;
};

struct WinogradLoops {
  std::int64_t taps, side;  // of a filter; of a tile's inputs: taps + 3
  // n places of `channels` (at most 16) planes -> n pixels; missing channels are 0.
  void (*gather)(const float* planes, std::int64_t plane_elems, std::int64_t channels, std::int64_t n,
                 float* pixels);
  void (*scatter)(const float* pixels, std::int64_t n, float* planes, std::int64_t plane_elems,
                  std::int64_t channels);
  // Tiles in a row of a frame whose rows are `width` pixels long. `between`: elements from a tile's
  // components to the next one's.
  void (*data)(const float* frame, std::int64_t width, std::int64_t tiles, float* out, std::int64_t between,
               std::int64_t stride);  // B^T d B of side x side, one every 4
  void (*spread)(const float* frame, std::int64_t width, std::int64_t tiles, float* out, std::int64_t between,
                 std::int64_t stride);  // A d A^T of 4 x 4
  void (*result)(const float* in, std::int64_t between, std::int64_t stride, std::int64_t tiles, float* frame,
                 std::int64_t width);  // A^T m A, 4 x 4
  // taps x taps pixels -> components: G g G^T; and G^T u G back.
  void (*filter)(const float* taps, float* out, std::int64_t stride);
  void (*filter_back)(const float* in, std::int64_t stride, float* taps);
  void (*product)(const SmallProduct& p);  // null but for AVX-512: it rounds a product and its sum once
};

struct WinogradSet {
  WinogradLoops three, five;
};

const WinogradLoops& winograd_loops(std::int64_t taps);  // 3 or 5

}  // namespace trireme::kernel
