// How the work of a convolution by Winograd (winograd.cc) lies in memory and is cut over threads.
#pragma once

#include <algorithm>

#include "trireme/kernel/cpu/conv/conv_cut.h"
#include "trireme/kernel/cpu/simd/winograd_loops.h"
#include "trireme/kernel/cpu/slices.h"

namespace trireme::kernel::winograd {

inline constexpr std::int64_t kTile = 4;

// From one component to the next. Distances of whole pages would have all components of a tile compete for a
// few places of the caches.
inline std::int64_t apart(std::int64_t elems) { return elems + kPixel; }

inline std::int64_t whole_pixels(std::int64_t channels) { return (channels + kPixel - 1) / kPixel * kPixel; }

// One side of the products: images, transformed from frames of `rows` x `width` places.
struct WinogradOperand {
  std::int64_t channels = 0, h = 0, w = 0;
  std::int64_t pad_h = 0, pad_w = 0;
  std::int64_t frame_rows = 0, frame_width = 0;

  std::int64_t padded() const { return whole_pixels(channels); }
  std::int64_t blocks() const { return padded() / kPixel; }
};

// x is transformed, with w the filter or the other way round; y is what has oh x ow places.
struct WinogradLayout {
  WinogradLayout(const ConvShape& s, ConvKind pass, int threads, bool last)
      : loops(&winograd_loops(s.kh)), components(loops->side * loops->side), n(s.n), channels_last(last) {
    const std::int64_t reach = loops->taps - 1;
    in = {s.c, s.h, s.w, s.pad_h, s.pad_w, loops->side, 0};
    out = {s.o, s.oh, s.ow, 0, 0, kTile, 0};
    if (pass == ConvKind::kInputGrad) {
      in = {s.o, s.oh, s.ow, reach - s.pad_h, reach - s.pad_w, loops->side, 0};
      out = {s.c, s.h, s.w, 0, 0, kTile, 0};
    }
    tile_rows = (out.h + kTile - 1) / kTile;
    tiles = (out.w + kTile - 1) / kTile;
    in.frame_width = tiles * kTile + reach;
    out.frame_width = tiles * kTile;
    filter_elems = components * filter_apart();
    const std::int64_t per_row = components * tiles * (in.padded() + out.padded()), all = n * tile_rows;
    const bool alone = filter_elems <= kSmallFilter;
    team = alone ? 1 : threads;
    walks = alone ? num_slices(all, all * per_row, threads) : 1;
    filters = pass == ConvKind::kFilterGrad ? walks : 1;
    // Together: large enough to pay for going through the filters once more.
    const std::int64_t budget =
        alone ? kOwnElems : std::max(std::min(kBlockElems * team, kMostElems), filter_elems / 2);
    const std::int64_t share = (all + walks - 1) / walks;
    const std::int64_t most = std::clamp<std::int64_t>(budget / per_row, 1, share);
    const std::int64_t num_blocks = (share + most - 1) / most;
    rows = (share + num_blocks - 1) / num_blocks;
  }

  std::int64_t positions() const { return rows * tiles; }  // of a full block
  std::int64_t filter_apart() const { return apart(in.channels * out.padded()); }
  std::int64_t frame_elems() const {
    return (in.frame_rows * in.frame_width + std::max(in.frame_rows * in.w, kTile * out.w)) * kPixel;
  }
  std::int64_t walk_elems() const {
    return components * (apart(positions() * in.padded()) + apart(positions() * out.padded())) +
           team * frame_elems();
  }
  std::size_t bytes() const {
    return static_cast<std::size_t>(filters * filter_elems + walks * walk_elems()) * sizeof(float);
  }

  static constexpr std::int64_t kBlockElems = std::int64_t{1} << 20;     // per thread: 4 MiB
  static constexpr std::int64_t kMostElems = std::int64_t{12} << 20;     // memory counts too
  static constexpr std::int64_t kSmallFilter = std::int64_t{256} << 10;  // half of a usual L2 cache
  static constexpr std::int64_t kOwnElems = std::int64_t{192} << 10;

  const WinogradLoops* loops;
  std::int64_t components, n;
  bool channels_last;  // of the images
  WinogradOperand in, out;
  std::int64_t tile_rows = 0, tiles = 0;  // per image; per tile row
  std::int64_t filter_elems = 0;
  int team = 1, walks = 1, filters = 1;  // threads of a walk over blocks; such walks at once; filters or sums
  std::int64_t rows = 0;                 // tile rows of a block, of whichever images
};

// The workspace: filters, then for every walk transformed inputs and outputs of a block, one frame per
// thread.
struct WinogradWorkspace {
  WinogradWorkspace(const WinogradLayout& l, const op::KernelArgs& args, int walk)
      : filters(reinterpret_cast<float*>(args.workspace.data()) + (walk % l.filters) * l.filter_elems),
        in(reinterpret_cast<float*>(args.workspace.data()) + l.filters * l.filter_elems +
           walk * l.walk_elems()),
        out(in + l.components * apart(l.positions() * l.in.padded())),
        frames(out + l.components * apart(l.positions() * l.out.padded())) {}
  float *filters, *in, *out, *frames;
};

// How a filter lies, [o, c, taps, taps] or with the channels last, for products of `from` channels with `to`
// channels.
struct FilterView {
  FilterView(const ConvShape& s, ConvKind pass, bool last)
      : tap_stride(last ? s.c : 1), area(s.kh * s.kw), turned(pass == ConvKind::kInputGrad) {
    const std::int64_t c = last ? 1 : area, o = s.c * area;
    from_stride = turned ? o : c, to_stride = turned ? c : o;
  }
  std::int64_t tap(std::int64_t i) const { return (turned ? area - 1 - i : i) * tap_stride; }

  std::int64_t from_stride, to_stride, tap_stride;
  std::int64_t area;  // taps x taps
  bool turned;
};

}  // namespace trireme::kernel::winograd
