// batch_norm, its gradient and batch_norm_inference over [rows, channels], channels fastest: batches of
// vectors, and images with the channels last. A thread has kPack neighbouring channels and walks down rows,
// so what belongs to a channel is read once; blocks x over channels, blocks y over parts of the rows. Sums as
// in norm_batch.cc.
#include <algorithm>

#include "trireme/kernel/cuda/norm/norm.h"
#include "trireme/kernel/cuda/norm/reduce_text.h"

namespace trireme::kernel::cuda {

// Texts of norm_rows*.cu, behind batch_norm_text's own part, with kPack, kAcross.
extern const char kNormColumnsText[], kNormForwardText[], kNormGradText[], kNormInferenceText[];

namespace {

struct Columns {  // as in the text
  std::int64_t rows, channels, part, num_parts;
};

struct ColumnsPlan {
  Columns s{}, apply_s{};  // of sums, and of what is written
  int pack = 1;
  Dim grid, apply_grid, block;
  const Function *sums = nullptr, *stats = nullptr, *apply = nullptr;
  std::int64_t table_at() const { return s.num_parts * 2 * s.channels; }  // in the workspace, in elements
  std::size_t bytes() const { return static_cast<std::size_t>(table_at() + 3 * s.channels) * sizeof(double); }
  std::size_t table_bytes() const { return static_cast<std::size_t>(table_at()) * sizeof(double); }
  Dim stats_grid() const { return {blocks_for(s.channels, 32)}; }
};

// The rows in parts, so that there are some `blocks` blocks, each with at least 4 rows for a thread.
Columns cut_rows(std::int64_t rows, std::int64_t channels, const Dim& block, std::int64_t across_blocks,
                 std::int64_t blocks) {
  const std::int64_t wanted =
      std::clamp<std::int64_t>(rows / (4 * block.y), 1, std::max<std::int64_t>(blocks / across_blocks, 1));
  Columns s{rows, channels, std::max<std::int64_t>((rows + wanted - 1) / wanted, 1), 1};
  s.num_parts = std::max<std::int64_t>((rows + s.part - 1) / s.part, 1);
  return s;
}

Result<ColumnsPlan> plan_columns(const CudaQuery& q, std::int64_t rows, std::int64_t channels,
                                 std::string_view body) {
  constexpr std::int64_t kSumBlocks = 1056,
                         kApplyBlocks = 2112;  // 8 and 16 for each multiprocessor of an H200
  ColumnsPlan p;
  p.pack = pack_width(widest_bytes(q), channels);
  int across = 1;
  while (across < 32 && across * p.pack < channels) across *= 2;
  p.block = {static_cast<unsigned>(across), static_cast<unsigned>(256 / across)};
  p.grid.x = p.apply_grid.x = blocks_for(channels, across, p.pack);
  p.s = cut_rows(rows, channels, p.block, p.grid.x, kSumBlocks);
  p.grid.y = static_cast<unsigned>(p.s.num_parts);
  p.apply_s = cut_rows(rows, channels, p.block, p.grid.x, kApplyBlocks);
  p.apply_grid.y = static_cast<unsigned>(p.apply_s.num_parts);
  const std::string text =
      batch_norm_text(q, {{"kPack", p.pack}, {"kAcross", across}}, {kNormColumnsText, body});
  const bool given = body == kNormInferenceText;  // statistics are
  if (!given) {
    TR_ASSIGN_OR_RETURN(p.sums, q.device.function(text, "column_sums"));
    TR_ASSIGN_OR_RETURN(p.stats, q.device.function(text, "column_stats"));
  }
  TR_ASSIGN_OR_RETURN(p.apply, q.device.function(text, given ? "column_given" : "column_apply"));
  return p;
}

}  // namespace

Made make_batch_norm_rows(const CudaQuery& q, std::int64_t rows, std::int64_t channels) {
  TR_ASSIGN_OR_RETURN(const ColumnsPlan p, plan_columns(q, rows, channels, kNormForwardText));
  const BatchNormParts parts = batch_norm_parts(q);
  const double eps = q.attrs.get_float("eps");
  return make_kernel(
      [=](const CudaArgs& a) -> Status {
        if (p.s.channels == 0) return ok_status();
        Columns s = p.s;
        if (s.rows == 0) s.num_parts = 0;
        void *x = a.in(0).raw(), *sums = a.workspace, *table = a.workspace + p.table_bytes();
        if (s.rows > 0) TR_RETURN_IF_ERROR(launch(a.stream, *p.sums, p.grid, p.block, 0, x, sums, s));
        TR_RETURN_IF_ERROR(launch(a.stream, *p.stats, p.stats_grid(), {32, 32}, 0, x, sums, a.in(1).raw(),
                                  table, a.out(1).raw(), a.out(2).raw(), s, eps));
        if (s.rows == 0) return ok_status();
        return launch(a.stream, *p.apply, p.apply_grid, p.block, 0, x, table, a.in(2).raw(),
                      input_at(a, parts.residual), a.out(0).raw(), p.apply_s);
      },
      p.bytes());
}

Made make_batch_norm_grad_rows(const CudaQuery& q, std::int64_t rows, std::int64_t channels) {
  TR_ASSIGN_OR_RETURN(const ColumnsPlan p, plan_columns(q, rows, channels, kNormGradText));
  const BatchNormParts parts = batch_norm_parts(q);
  const double eps = q.attrs.get_float("eps");
  return make_kernel(
      [=](const CudaArgs& a) -> Status {
        if (p.s.channels == 0) return ok_status();
        void *x = a.in(0).raw(), *scale = a.in(1).raw(), *bias = input_at(a, parts.bias);
        void *mean = input_at(a, parts.mean), *var = input_at(a, parts.var), *dy = input_at(a, parts.dy);
        void* const masked = parts.y >= 0 ? a.out(3).raw() : nullptr;
        void *sums = a.workspace, *table = a.workspace + p.table_bytes();
        TR_RETURN_IF_ERROR(launch(a.stream, *p.sums, p.grid, p.block, 0, x, scale, bias, mean, var,
                                  input_at(a, parts.y), dy, input_at(a, parts.second), masked, sums, p.s,
                                  eps));
        TR_RETURN_IF_ERROR(launch(a.stream, *p.stats, p.stats_grid(), {32, 32}, 0, sums, scale, var, table,
                                  a.out(1).raw(), a.out(2).raw(), p.s, eps));
        return launch(a.stream, *p.apply, p.apply_grid, p.block, 0, x, table, bias, mean,
                      masked != nullptr ? masked : dy, a.out(0).raw(), p.apply_s);
      },
      p.bytes());
}

Made make_batch_norm_inference_rows(const CudaQuery& q, std::int64_t rows, std::int64_t channels) {
  TR_ASSIGN_OR_RETURN(const ColumnsPlan p, plan_columns(q, rows, channels, kNormInferenceText));
  const double eps = q.attrs.get_float("eps");
  return make_kernel([=](const CudaArgs& a) -> Status {
    if (p.s.rows * p.s.channels == 0) return ok_status();
    return launch(a.stream, *p.apply, p.apply_grid, p.block, 0, a.in(0).raw(), a.in(1).raw(), a.in(2).raw(),
                  a.in(3).raw(), a.in(4).raw(), a.out(0).raw(), p.apply_s, eps);
  });
}

}  // namespace trireme::kernel::cuda
