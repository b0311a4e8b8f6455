// Where the pixels lie that convolutions by tiles multiply: under a tap of the filter, or, in images of few
// channels, under a row of taps, whose pixels lie side by side; where some are padding they are copied.
#pragma once

#include <algorithm>
#include <cstring>

#include "trireme/kernel/cpu/conv/conv_shape.h"
#include "trireme/kernel/cpu/simd/tiles.h"

namespace trireme::kernel {

struct TilePixels {
  using Low = tiles::Low;
  static constexpr std::int64_t kBlock = 32;  // channels that are multiplied at once

  // Pixels of x, under the outputs of a convolution.
  static TilePixels of_input(const ConvShape& s) {
    return {s.h,        s.w,          s.c,          s.oh,    s.ow,    s.kh,         s.kw, s.stride_h,
            s.stride_w, s.dilation_h, s.dilation_w, s.pad_h, s.pad_w, s.c < kBlock, false};
  }
  // Pixels of dy, under the inputs of a convolution of stride 1: taps go backwards.
  static TilePixels of_gradient(const ConvShape& s) {
    return {s.oh,
            s.ow,
            s.o,
            s.h,
            s.w,
            s.kh,
            s.kw,
            1,
            1,
            s.dilation_h,
            s.dilation_w,
            s.dilation_h * (s.kh - 1) - s.pad_h,
            s.dilation_w * (s.kw - 1) - s.pad_w,
            false,
            true};
  }

  // A unit is a tap, or a row of them.
  std::int64_t units() const { return by_rows ? kh : kh * kw; }
  std::int64_t columns() const { return by_rows ? kw * c : c; }
  std::int64_t column_blocks() const { return tiles::depths(columns()); }
  std::int64_t staged_elems(std::int64_t pixels) const {
    return by_rows ? pixels * column_blocks() * kBlock : 0;
  }

  // rows[i] = the columns of unit `unit` for place first + i, null where they are padding. `staged` is memory
  // for staged_elems(last - first).
  void find(const Low* images, std::int64_t unit, std::int64_t first, std::int64_t last, Low* staged,
            const Low** rows) const {
    if (turned) unit = units() - 1 - unit;
    by_rows ? stage(images, unit, first, last, staged, rows) : point(images, unit, first, last, rows);
  }

  std::int64_t h, w, c;  // of the images
  std::int64_t oh, ow;   // places
  std::int64_t kh, kw, stride_h, stride_w, dilation_h, dilation_w, pad_h, pad_w;
  bool by_rows, turned;

 private:
  // Calls fn(row of the image or null, first column, place - first, count) for runs of places in a row.
  template <typename Fn>
  void for_runs(const Low* images, std::int64_t down, std::int64_t first, std::int64_t last,
                const Fn& fn) const {
    std::int64_t ox = first % ow, oy = first / ow % oh, n = first / (ow * oh);
    for (std::int64_t p = first; p < last;) {
      const std::int64_t y = oy * stride_h + down, run = std::min(ow - ox, last - p);
      fn(y >= 0 && y < h ? images + (n * h + y) * w * c : nullptr, ox, p - first, run);
      p += run;
      ox = 0;
      if (++oy == oh) oy = 0, ++n;
    }
  }

  void point(const Low* images, std::int64_t unit, std::int64_t first, std::int64_t last,
             const Low** rows) const {
    const std::int64_t right = unit % kw * dilation_w - pad_w;
    for_runs(images, unit / kw * dilation_h - pad_h, first, last,
             [&](const Low* row, std::int64_t ox, std::int64_t to, std::int64_t count) {
               for (std::int64_t i = 0; i < count; ++i) {
                 const std::int64_t at = (ox + i) * stride_w + right;
                 rows[to + i] = row != nullptr && at >= 0 && at < w ? row + at * c : nullptr;
               }
             });
  }

  void stage(const Low* images, std::int64_t unit, std::int64_t first, std::int64_t last, Low* staged,
             const Low** rows) const {
    const auto bytes = [&](std::int64_t pixels) {
      return static_cast<std::size_t>(pixels * c) * sizeof(Low);
    };
    for_runs(images, unit * dilation_h - pad_h, first, last,
             [&](const Low* row, std::int64_t ox, std::int64_t at, std::int64_t count) {
               for (std::int64_t i = 0; i < count; ++i) {
                 const std::int64_t left = (ox + i) * stride_w - pad_w;
                 const bool whole = left >= 0 && left + kw <= w;
                 Low* const to = staged + (at + i) * column_blocks() * kBlock;
                 rows[at + i] = row == nullptr ? nullptr : whole ? row + left * c : to;
                 if (row == nullptr || whole) continue;
                 const std::int64_t begin = std::clamp<std::int64_t>(-left, 0, kw),
                                    end = std::clamp<std::int64_t>(w - left, begin, kw);
                 std::memset(to, 0, bytes(begin));
                 std::memcpy(to + begin * c, row + (left + begin) * c, bytes(end - begin));
                 std::memset(to + end * c, 0, bytes(kw - end));
               }
             });
  }
};

}  // namespace trireme::kernel
