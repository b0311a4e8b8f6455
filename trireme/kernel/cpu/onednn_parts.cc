#ifdef TRIREME_HAVE_ONEDNN

#include "trireme/kernel/cpu/onednn_parts.h"

#include "trireme/kernel/cpu/one_thread.h"

namespace trireme::kernel {

using dnnl::memory;

std::array<int, 3> conv_args(ConvKind kind) {
  constexpr std::array<std::array<int, 3>, 3> kArgs{
      {{DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DST},
       {DNNL_ARG_DIFF_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DIFF_DST},
       {DNNL_ARG_SRC, DNNL_ARG_DIFF_WEIGHTS, DNNL_ARG_DIFF_DST}}};
  return kArgs[static_cast<std::size_t>(kind)];
}

dnnl::primitive_attr user_scratchpad() {
  dnnl::primitive_attr attr;
  attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  return attr;
}

memory::dims filter_dims(const ConvShape& s) {
  return s.groups == 1 ? memory::dims{s.o, s.c, s.kh, s.kw}
                       : memory::dims{s.groups, s.group_o(), s.group_c(), s.kh, s.kw};
}

memory::dims right_padding(const ConvShape& s) {
  return {(s.oh - 1) * s.stride_h + (s.kh - 1) * s.dilation_h + 1 - s.h - s.pad_h,
          (s.ow - 1) * s.stride_w + (s.kw - 1) * s.dilation_w + 1 - s.w - s.pad_w};
}

FilterMove::FilterMove(const dnnl::engine& engine, const ConvShape& s, const memory::desc& plain,
                       const memory::desc& blocked, bool to_plain, int width) {
  std::int64_t block = 1;
  const bool in_blocks = blocked.get_format_kind() == memory::format_kind::blocked;
  if (in_blocks) {
    const memory::dims blocks = blocked.get_inner_blks(), at = blocked.get_inner_idxs();
    for (std::size_t i = 0; i < blocks.size(); ++i)
      if (at[i] == 0) block *= blocks[i];
  }
  const bool whole = !in_blocks || s.groups > 1 || s.o % block != 0;
  const std::int64_t units = whole ? 1 : s.o / block;
  pieces_ = num_slices(units, s.o * s.taps(), width);
  for (int i = 0; i < pieces_; ++i) {
    const auto [first, last] = slice_range(units, pieces_, i);
    memory::desc from = blocked, to = plain;
    if (pieces_ > 1) {
      const memory::dims dims{(last - first) * block, s.c, s.kh, s.kw}, offset{first * block, 0, 0, 0};
      from = blocked.submemory_desc(dims, offset, /*allow_empty=*/true);
      to = plain.submemory_desc(dims, offset, true);
    }
    if (from.is_zero() || to.is_zero()) return;
    if (!to_plain) std::swap(from, to);
    const dnnl::reorder::primitive_desc pd(engine, from, engine, to, user_scratchpad(), true);
    if (!pd) return;
    moves_.push_back({from, to, pd.scratchpad_desc(), dnnl::reorder(pd)});
    scratch_bytes_ = std::max(scratch_bytes_, round_up(moves_.back().scratch.get_size()));
  }
  ok_ = true;
}

void FilterMove::run(const dnnl::engine& engine, int piece, std::byte* from, std::byte* to,
                     std::byte* scratch) const {
  const OneThread one_thread;
  dnnl::stream stream(engine);
  const Move& move = moves_[static_cast<std::size_t>(piece)];
  move.reorder.execute(stream, {{DNNL_ARG_FROM, memory(move.from, engine, from)},
                                {DNNL_ARG_TO, memory(move.to, engine, to)},
                                {DNNL_ARG_SCRATCHPAD, memory(move.scratch, engine, scratch)}});
}

}  // namespace trireme::kernel

#endif  // TRIREME_HAVE_ONEDNN
