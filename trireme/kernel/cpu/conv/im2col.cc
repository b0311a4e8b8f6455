#include "trireme/kernel/cpu/conv/im2col.h"

#include <algorithm>
#include <cstring>

#include "trireme/kernel/cpu/simd/loops.h"

namespace trireme::kernel {
namespace {

constexpr std::int64_t kBlockElems = std::int64_t{128} * 1024;  // 512 KiB: half of a usual L2 cache

std::int64_t round_up(std::int64_t v) { return (v + 15) / 16 * 16; }

}  // namespace

std::int64_t frame_elems(const ConvShape& s) {
  return round_up(s.c * s.padded_h() * s.padded_w() + kSlackElems);
}

std::int64_t block_rows(const ConvShape& s) {
  const std::int64_t row_elems = std::max<std::int64_t>(1, s.taps() * std::max(s.ow, s.padded_w()));
  return std::clamp<std::int64_t>(kBlockElems / row_elems, 1, std::max<std::int64_t>(1, s.oh));
}

std::int64_t column_width(const ConvShape& s, bool wide) { return wide ? s.padded_w() : s.ow; }

std::int64_t column_elems(const ConvShape& s, bool wide) {
  return round_up(s.taps() * block_rows(s) * column_width(s, wide) + kSlackElems);
}

void fill_frame(const ConvShape& s, const float* image, float* frame) {
  const std::int64_t ph = s.padded_h(), pw = s.padded_w();
  std::memset(frame, 0, static_cast<std::size_t>(frame_elems(s)) * sizeof(float));
  for (std::int64_t c = 0; c < s.c; ++c)
    for (std::int64_t y = 0; y < s.h; ++y)
      std::memcpy(frame + (c * ph + y + s.pad_h) * pw + s.pad_w, image + (c * s.h + y) * s.w,
                  static_cast<std::size_t>(s.w) * sizeof(float));
}

void read_frame(const ConvShape& s, const float* frame, float* image) {
  const std::int64_t ph = s.padded_h(), pw = s.padded_w();
  for (std::int64_t c = 0; c < s.c; ++c)
    for (std::int64_t y = 0; y < s.h; ++y)
      std::memcpy(image + (c * s.h + y) * s.w, frame + (c * ph + y + s.pad_h) * pw + s.pad_w,
                  static_cast<std::size_t>(s.w) * sizeof(float));
}

void im2col(const ConvShape& s, const float* frame, std::int64_t group, std::int64_t row, std::int64_t rows,
            float* columns) {
  const VectorLoops& loops = vector_loops();
  const std::int64_t ph = s.padded_h(), pw = s.padded_w();
  const std::int64_t first_c = group * s.group_c();
  for (std::int64_t c = first_c; c < first_c + s.group_c(); ++c)
    for (std::int64_t ky = 0; ky < s.kh; ++ky)
      for (std::int64_t kx = 0; kx < s.kw; ++kx) {
        const float* from = frame + (c * ph + row * s.stride_h + ky * s.dilation_h) * pw + kx * s.dilation_w;
        if (s.stride_w == 1) {
          // Overruns each row by up to kSlackElems; the next row overwrites what it spilled.
          loops.copy_rows(from, s.stride_h * pw, columns, rows, s.ow);
        } else {
          for (std::int64_t r = 0; r < rows; ++r)
            for (std::int64_t x = 0; x < s.ow; ++x)
              columns[r * s.ow + x] = from[r * s.stride_h * pw + x * s.stride_w];
        }
        columns += rows * s.ow;
      }
}

void col2im_add(const ConvShape& s, const float* columns, std::int64_t group, std::int64_t row,
                std::int64_t rows, float* frame) {
  const VectorLoops& loops = vector_loops();
  const std::int64_t ph = s.padded_h(), pw = s.padded_w();
  const std::int64_t first_c = group * s.group_c();
  for (std::int64_t c = first_c; c < first_c + s.group_c(); ++c)
    for (std::int64_t ky = 0; ky < s.kh; ++ky)
      for (std::int64_t kx = 0; kx < s.kw; ++kx) {
        float* to = frame + (c * ph + row * s.stride_h + ky * s.dilation_h) * pw + kx * s.dilation_w;
        if (s.stride_w == 1 && s.stride_h == 1) {
          loops.add(to, columns, to, (rows - 1) * pw + s.ow);
          columns += rows * pw;
        } else if (s.stride_w == 1) {
          for (std::int64_t r = 0; r < rows; ++r) {
            float* line = to + r * s.stride_h * pw;
            loops.add(line, columns + r * pw, line, s.ow);
          }
          columns += rows * pw;
        } else {
          for (std::int64_t r = 0; r < rows; ++r)
            for (std::int64_t x = 0; x < s.ow; ++x)
              to[r * s.stride_h * pw + x * s.stride_w] += columns[r * s.ow + x];
          columns += rows * s.ow;
        }
      }
}

}  // namespace trireme::kernel
