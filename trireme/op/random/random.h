// Random numbers as pure functions of (key, step, stream) and, where there are samples, of (sample id,
// element of the sample): the same under any sharding of the batch, byte for byte. (base/rng.h has the
// generator.)
//
//   stream key               K = mix_key(key, step, stream)
//   block b of sample s      philox4x32(K, counter {b low, b high, s low, s high}): 4 words of 32 bits
//   element j of a sample    word j % 4 of block j / 4 (normal: see there)
//
// Parameters have no samples: their ids are the indices of their rows, of the whole tensor.
#pragma once

#include <array>
#include <span>

#include "trireme/base/rng.h"
#include "trireme/op/detail/cut_graph.h"
#include "trireme/op/detail/dispatch.h"
#include "trireme/op/detail/infer.h"

namespace trireme::op::detail {

using Words = std::array<std::uint32_t, 4>;

AttrSpec stream_attr();
// The i64 scalars key and step, which are inputs `first` and `first` + 1.
Status expect_key(TypeSpan in, int first);
std::uint64_t stream_key(const KernelArgs& a, int first);
Words sample_block(std::uint64_t stream_key, std::uint64_t sample, std::uint64_t block);

// Ops that make numbers from (key, step, sample_ids [N]): [N, ...shape] of `dtype`.
std::vector<AttrSpec> generator_attrs(std::vector<AttrSpec> own);
Types infer_generator(TypeSpan in, const Attrs& attrs);
// Samples, and rewritten the other dimensions: a position makes whole samples and takes its part.
std::vector<LayoutOption> generator_layout(TypeSpan in, const Attrs& attrs);
Cut cut_generator(CutBuilder& b, const OpDef& def);

// Element j of a sample = f(words of its block, j % 4), a double that is rounded once.
template <typename F>
void generate(const KernelArgs& a, F f) {
  const Tensor &ids = a.in(2), &y = a.out(0);
  const std::uint64_t key = stream_key(a, 0);
  const std::int64_t samples = ids.shape()[0], size = samples > 0 ? y.shape().num_elems() / samples : 0;
  dispatch_float(y.dtype(), [&]<typename T>() {
    for (std::int64_t s = 0; s < samples; ++s) {
      T* out = y.data<T>() + s * size;
      const auto id = static_cast<std::uint64_t>(ids.data<std::int64_t>()[s * ids.strides()[0]]);
      Words words{};
      for (std::int64_t j = 0; j < size; ++j) {
        if (j % 4 == 0) words = sample_block(key, id, static_cast<std::uint64_t>(j / 4));
        out[j] = static_cast<T>(static_cast<Acc<T>>(f(words, static_cast<std::size_t>(j % 4))));
      }
    }
  });
}

// A uniformly random permutation of 0...n-1: the inside-out shuffle of Fisher and Yates. Entry i goes to
// place j = (r (i + 1)) >> 64 and what was there to place i, where r has words 0 (low) and 1 of philox4x32(K,
// {i low, i high, 0, 0}).
void permute(std::uint64_t stream_key, std::span<std::int64_t> order);

}  // namespace trireme::op::detail
