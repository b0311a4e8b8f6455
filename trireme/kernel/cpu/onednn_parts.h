// What convolutions by oneDNN share: how the work is cut over threads, and filters on their way between the
// graph's order and a primitive's.
#pragma once

#ifdef TRIREME_HAVE_ONEDNN

#include <oneapi/dnnl/dnnl.hpp>
#include <vector>

#include "trireme/kernel/cpu/conv_shape.h"

namespace trireme::kernel {

enum class ConvKind { kForward, kInputGrad, kFilterGrad };

inline std::size_t round_up(std::size_t bytes) { return (bytes + 63) / 64 * 64; }
dnnl::primitive_attr user_scratchpad();
// [O,C,KH,KW], or [groups,O / groups,C / groups,KH,KW].
dnnl::memory::dims filter_dims(const ConvShape& s);
// oneDNN checks that the padding on the right gives exactly the output size.
dnnl::memory::dims right_padding(const ConvShape& s);

// Parts of the images times parts of the output channels. A filter gradient is cut over both: parts over
// images are added up (a whole gradient for each, where the filter is large), parts over channels read all of
// x. What moves fewest bytes is taken.
struct ConvCut {
  int images = 1, channels = 1;
  int count() const { return images * channels; }

  // `image_bytes` are moved for every element of an image.
  static ConvCut of(ConvKind kind, const ConvShape& s, int width, int image_bytes);
};

// Moves a filter between the graph's order and a primitive's, output channels cut into pieces of whole
// blocks, so that threads can share the work.
class FilterMove {
 public:
  FilterMove(const dnnl::engine& engine, const ConvShape& s, const dnnl::memory::desc& plain,
             const dnnl::memory::desc& blocked, bool to_plain, int width);

  bool ok() const { return ok_; }
  int pieces() const { return pieces_; }
  std::size_t scratch_bytes() const { return scratch_bytes_; }  // of a piece
  void run(const dnnl::engine& engine, int piece, std::byte* from, std::byte* to, std::byte* scratch) const;

 private:
  struct Move {
    dnnl::memory::desc from, to, scratch;
    dnnl::reorder reorder;
  };
  int pieces_ = 1;
  bool ok_ = false;
  std::vector<Move> moves_;
  std::size_t scratch_bytes_ = 0;
};

}  // namespace trireme::kernel

#endif  // TRIREME_HAVE_ONEDNN
