// What convolutions by oneDNN share: filters on their way between the graph's order and a primitive's.
#pragma once

#ifdef TRIREME_HAVE_ONEDNN

#include <algorithm>
#include <array>
#include <oneapi/dnnl/dnnl.hpp>
#include <string_view>
#include <vector>

#include "trireme/kernel/cpu/conv/conv_cut.h"
#include "trireme/kernel/cpu/slices.h"

namespace trireme::kernel {

// oneDNN's names of x, filter and y.
std::array<int, 3> conv_args(ConvKind kind);

// oneDNN's plain loops: slower than any other way.
template <typename Pd>
bool is_plain(const Pd& pd) {
  const std::string_view name = pd.impl_info_str();
  return name.starts_with("ref") || name.starts_with("gemm:ref");
}

inline std::size_t round_up(std::size_t bytes) { return (bytes + 63) / 64 * 64; }
dnnl::primitive_attr user_scratchpad();
// [O,C,KH,KW], or [groups,O / groups,C / groups,KH,KW].
dnnl::memory::dims filter_dims(const ConvShape& s);
// oneDNN checks that the padding on the right gives exactly the output size.
dnnl::memory::dims right_padding(const ConvShape& s);

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

// Moves those sums to `out`, `part_bytes` apart; scratch(i) is that of the i-th thread.
template <typename Partial, typename Scratch>
void move_sums(op::Parallel& parallel, const dnnl::engine& engine, const ConvCut& cut, const FilterMove& move,
               const Partial& partial, std::byte* out, std::int64_t part_bytes, const Scratch& scratch) {
  const int pieces = move.pieces() * cut.channels;
  const int at_once = std::min(pieces, parallel.width());
  for_slices(parallel, pieces, at_once, [&](std::int64_t first, std::int64_t last, int i) {
    for (std::int64_t p = first; p < last; ++p) {
      const auto channel = static_cast<int>(p / move.pieces());
      move.run(engine, static_cast<int>(p % move.pieces()), partial(channel), out + channel * part_bytes,
               scratch(i));
    }
  });
}

}  // namespace trireme::kernel

#endif  // TRIREME_HAVE_ONEDNN
