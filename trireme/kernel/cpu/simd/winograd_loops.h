// Steps of Winograd's F(4x4, 3x3), 16 channels side by side. Compiled and chosen like the loops of loops.h,
// with the same bits on every instruction set.
//
// A *pixel* is 16 channels of one place, 16 floats. A *tile* covers 4 x 4 outputs and reads 6 x 6 inputs; its
// transform has 36 components, each a pixel, `stride` elements apart.
#pragma once

#include <cstdint>

namespace trireme::kernel {

inline constexpr std::int64_t kPixel = 16;       // channels
inline constexpr std::int64_t kComponents = 36;  // 6 x 6

struct WinogradLoops {
  // n places of `channels` (at most 16) planes -> n pixels; missing channels are 0.
  void (*gather)(const float* planes, std::int64_t plane_elems, std::int64_t channels, std::int64_t n,
                 float* pixels);
  void (*scatter)(const float* pixels, std::int64_t n, float* planes, std::int64_t plane_elems,
                  std::int64_t channels);
  // Tiles in a row of a frame whose rows are `width` pixels long. `between`: elements from a tile's
  // components to the next one's.
  void (*data)(const float* frame, std::int64_t width, std::int64_t tiles, float* out, std::int64_t between,
               std::int64_t stride);  // B^T d B of 6 x 6, one every 4
  void (*spread)(const float* frame, std::int64_t width, std::int64_t tiles, float* out, std::int64_t between,
                 std::int64_t stride);  // A d A^T of 4 x 4
  void (*result)(const float* in, std::int64_t between, std::int64_t stride, std::int64_t tiles, float* frame,
                 std::int64_t width);  // A^T m A, 4 x 4
  // 3 x 3 pixels -> 36 components: G g G^T; and G^T u G back.
  void (*filter)(const float* taps, float* out, std::int64_t stride);
  void (*filter_back)(const float* in, std::int64_t stride, float* taps);
};

const WinogradLoops& winograd_loops();

}  // namespace trireme::kernel
