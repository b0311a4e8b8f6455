#include "trireme/kernel/cpu/conv/conv_cut.h"

#include <limits>

namespace trireme::kernel {

ConvCut ConvCut::of(ConvKind kind, const ConvShape& s, int width, int image_bytes) {
  const int slices = conv_slices(s, width);
  if (kind != ConvKind::kFilterGrad) {
    const std::int64_t parts = slices >= kManyThreads ? std::min<std::int64_t>(s.n, 4 * slices) : slices;
    return {static_cast<int>(parts), 1, slices};
  }
  if (s.groups > 1) return {slices, 1, slices};
  constexpr std::int64_t kUnit = 32;  // output channels that are computed together
  const int most = num_slices(s.n * (s.o / kUnit + 1), s.macs() / 32, width);
  ConvCut best{slices, 1, slices};
  double least = std::numeric_limits<double>::infinity();
  for (int channels = 1; channels <= most; ++channels) {
    if (most % channels != 0 || s.o % (channels * kUnit) != 0) continue;
    const auto images = static_cast<int>(std::min<std::int64_t>(most / channels, s.n));
    const auto o = static_cast<double>(s.o / channels), n = static_cast<double>(s.n) / images;
    // Sums are written, read and added; images are read and turned around.
    const double bytes =
        12 * o * static_cast<double>(s.taps()) +
        image_bytes * n * (static_cast<double>(s.c * s.h * s.w) + o * static_cast<double>(s.oh * s.ow));
    const double busy = bytes * most / (images * channels);
    if (busy < least) least = busy, best = {images, channels, images * channels};
  }
  return best;
}

}  // namespace trireme::kernel
