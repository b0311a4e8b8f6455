// dropout_part: runs of elements that follow each other in a whole sample are cut over slices, and take the
// loop of dropout. It counts in whole chunks, so what a run has of a chunk at its ends goes through a buffer.
#include <cstring>

#include "trireme/kernel/cpu/query.h"
#include "trireme/kernel/cpu/simd/misc_loops.h"
#include "trireme/kernel/cpu/slices.h"
#include "trireme/op/random/dropout.h"

namespace trireme::kernel {
namespace {

bool f32_values(const op::KernelQuery& q) { return q.inputs[0].dtype == DType::kF32; }

struct Mask {
  std::uint64_t key, sample;
  float threshold, keep;
};

// n elements of a sample, of which the first is at `place`.
void drop_run(const Mask& m, std::uint64_t place, const float* x, float* y, std::int64_t n) {
  constexpr auto kChunk = static_cast<std::uint64_t>(kDropoutChunk);
  const auto before = static_cast<std::int64_t>(place % kChunk);  // elements of its chunk before the run
  std::uint64_t chunk = place / kChunk;
  if (before > 0) {
    float buffer[kDropoutChunk] = {};
    const std::int64_t count = std::min(n, kDropoutChunk - before);
    std::memcpy(buffer + before, x, static_cast<std::size_t>(count) * sizeof(float));
    misc_loops().dropout(m.key, m.sample, chunk++, buffer, m.threshold, m.keep, buffer, kDropoutChunk);
    std::memcpy(y, buffer + before, static_cast<std::size_t>(count) * sizeof(float));
    x += count, y += count, n -= count;
  }
  misc_loops().dropout(m.key, m.sample, chunk, x, m.threshold, m.keep, y, n);
}

void run(op::KernelArgs& args) {
  const Shape& shape = args.in(0).shape();
  const std::int64_t elems = shape.num_elems();
  if (elems == 0) return;
  const op::detail::DropoutRuns runs(args);
  const std::int64_t size = runs.size, num_runs = elems / size, runs_per_sample = num_runs / shape[0];
  const float* x = f32_in(args, 0);
  float* y = f32_out(args, 0);
  const std::int64_t* ids = args.in(3).values<std::int64_t>().data();
  const double rate = args.attrs.get_float("rate");
  const Mask mask{op::detail::stream_key(args, 1), 0, static_cast<float>(rate), static_cast<float>(1 - rate)};
  for_slices(args.parallel, num_runs, num_slices(num_runs, 4 * elems, args.parallel.width()),
             [&](std::int64_t begin, std::int64_t end, int) {
               Mask own = mask;
               for (std::int64_t r = begin; r < end; ++r) {
                 own.sample = static_cast<std::uint64_t>(ids[r / runs_per_sample]);
                 drop_run(own, runs.place(r % runs_per_sample * size), x + r * size, y + r * size, size);
               }
             });
}

}  // namespace

extern const op::KernelRow kDropoutPartVector{
    .op = "dropout_part", .name = "vector", .run = run, .applicable = f32_values};

}  // namespace trireme::kernel
