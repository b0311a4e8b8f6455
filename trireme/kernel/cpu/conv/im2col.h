// Convolution as matrix product: unrolls blocks of one image into columns small enough to stay in the L2
// cache.
//
// Vocabulary. An image is first copied into a zero-padded *frame* [c, padded_h, padded_w], so that no loop
// below tests borders. A *block* is a run of output rows; its *columns* form a matrix [taps of one group,
// rows * ow]. Backward, columns are *wide*: rows * padded_w with the gradient zero in the gaps, which makes
// every row of the matrix one contiguous run of the frame, for stride_w == 1; otherwise they are as narrow as
// forward.
#pragma once

#include <cstdint>

#include "trireme/kernel/cpu/conv/conv_shape.h"

namespace trireme::kernel {

// Copies may run over the end of a row by less than this; frames and columns are this much longer.
inline constexpr std::int64_t kSlackElems = 16;

std::int64_t frame_elems(const ConvShape& s);  // with slack, a multiple of 16
std::int64_t block_rows(const ConvShape& s);   // output rows per block, at least 1
std::int64_t column_width(const ConvShape& s, bool wide);
std::int64_t column_elems(const ConvShape& s, bool wide);  // of one block, with slack, a multiple of 16

// image [c, h, w] -> frame.
void fill_frame(const ConvShape& s, const float* image, float* frame);
// The inside of the frame -> image.
void read_frame(const ConvShape& s, const float* frame, float* image);

// Columns of output rows [row, row + rows) of one group.
void im2col(const ConvShape& s, const float* frame, std::int64_t group, std::int64_t row, std::int64_t rows,
            float* columns);
// Adds columns (wide where stride_w == 1) back into the frame.
void col2im_add(const ConvShape& s, const float* columns, std::int64_t group, std::int64_t row,
                std::int64_t rows, float* frame);

}  // namespace trireme::kernel
