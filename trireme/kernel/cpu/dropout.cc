// dropout: samples are cut over slices; the random words are those of the reference, sixteen blocks at a
// time.
#include "trireme/kernel/cpu/query.h"
#include "trireme/kernel/cpu/simd/misc_loops.h"
#include "trireme/kernel/cpu/slices.h"
#include "trireme/op/op.h"
#include "trireme/op/random/random.h"

namespace trireme::kernel {
namespace {

bool f32_values(const op::KernelQuery& q) { return q.inputs[0].dtype == DType::kF32; }

void run(op::KernelArgs& args) {
  const Shape& shape = args.in(0).shape();
  const std::int64_t samples = shape[0], size = samples == 0 ? 0 : shape.num_elems() / samples;
  const float* x = f32_in(args, 0);
  float* y = f32_out(args, 0);
  const std::int64_t* ids = args.in(3).values<std::int64_t>().data();
  const std::uint64_t key = op::detail::stream_key(args, 1);
  const double rate = args.attrs.get_float("rate");
  // Chunks of all samples; a slice may begin within a sample.
  const std::int64_t chunks = (size + kDropoutChunk - 1) / kDropoutChunk;
  const auto one_sample = [&](std::int64_t s, std::int64_t first, std::int64_t last) {
    const std::int64_t at = first * kDropoutChunk, end = std::min(last * kDropoutChunk, size);
    misc_loops().dropout(key, static_cast<std::uint64_t>(ids[s]), static_cast<std::uint64_t>(first),
                         x + s * size + at, static_cast<float>(rate), static_cast<float>(1 - rate),
                         y + s * size + at, end - at);
  };
  for_slices(args.parallel, samples * chunks,
             num_slices(samples * chunks, 4 * shape.num_elems(), args.parallel.width()),
             [&](std::int64_t begin, std::int64_t end, int) {
               for (std::int64_t at = begin; at < end;) {
                 const std::int64_t s = at / chunks, first = at % chunks;
                 const std::int64_t last = std::min(chunks, first + end - at);
                 one_sample(s, first, last);
                 at += last - first;
               }
             });
}

}  // namespace

extern const op::KernelRow kDropoutVector{
    .op = "dropout", .name = "vector", .run = run, .applicable = f32_values};

}  // namespace trireme::kernel
