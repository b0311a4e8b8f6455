// local_response_norm with the usual power of 3/4, two square roots: pieces of a plane go through the
// channels.
#include <algorithm>

#include "trireme/kernel/cpu/query.h"
#include "trireme/kernel/cpu/simd/misc_loops.h"
#include "trireme/kernel/cpu/slices.h"
#include "trireme/op/nn/window_sum.h"
#include "trireme/op/op.h"

namespace trireme::kernel {
namespace {

bool three_quarters(const op::KernelQuery& q) { return all_f32(q) && q.attrs.get_float("beta") == 0.75; }

void run(op::KernelArgs& args) {
  constexpr std::int64_t kPiece = 512;
  const Shape& shape = args.in(0).shape();
  const std::int64_t channels = shape[1], size = args.attrs.get_int("size");
  std::int64_t plane = 1;
  for (int d = 2; d < shape.rank(); ++d) plane *= shape[d];
  const float* x = f32_in(args, 0);
  float* y = f32_out(args, 0);
  const auto factor = static_cast<float>(args.attrs.get_float("alpha") / static_cast<double>(size));
  const auto k = static_cast<float>(args.attrs.get_float("k"));
  const MiscLoops& loops = misc_loops();
  const std::int64_t elems = shape.num_elems(), rows = shape[0] * channels;
  for_slices(args.parallel, rows, num_slices(rows, elems * size / 2, args.parallel.width()),
             [&](std::int64_t begin, std::int64_t end, int) {
               float sums[kPiece];
               for (std::int64_t row = begin; row < end; ++row)
                 for (std::int64_t at = 0; at < plane; at += kPiece) {
                   const std::int64_t n = std::min(kPiece, plane - at), channel = row % channels;
                   const float* sample = x + (row - channel) * plane + at;
                   const op::detail::Span s =
                       op::detail::span_at(channel, channels, size / 2, (size - 1) / 2);
                   std::fill(sums, sums + n, 0.0F);
                   for (std::int64_t c = s.begin; c < s.end; ++c)
                     loops.add_squares(sample + c * plane, sums, n);
                   loops.response(x + row * plane + at, sums, k, factor, y + row * plane + at, n);
                 }
             });
}

}  // namespace

extern const op::KernelRow kLocalResponseNormVector{
    .op = "local_response_norm", .name = "vector", .run = run, .applicable = three_quarters};

}  // namespace trireme::kernel
