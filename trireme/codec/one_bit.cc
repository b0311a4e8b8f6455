// 1-bit SGD (Seide et al., "1-bit stochastic gradient descent and its application to data-parallel
// distributed training of speech DNNs", Interspeech 2014): with a = g + r, per block of values one bit each
// and two numbers, the means of the negative ones and of the others; r' = a - decoded.
#include <algorithm>

#include "trireme/codec/blocks.h"
#include "trireme/codec/codec.h"
#include "trireme/codec/loops.h"
#include "trireme/codec/wire.h"

namespace trireme::codec {
namespace {

constexpr std::uint8_t kWireId = 3;

struct Means {
  float high, low;
};

std::size_t bits_of(std::size_t count) { return (count + 7) / 8; }
std::size_t body_bytes(std::size_t count, std::size_t block) {
  return (count + block - 1) / block * sizeof(Means) + bits_of(count);
}
// In the header: log2 of the block's values, 0 for the longest.
std::uint8_t own_byte(unsigned bits) { return static_cast<std::uint8_t>(bits == kMostBlockBits ? 0 : bits); }

class OneBit final : public Codec {
 public:
  std::size_t max_bytes(std::int64_t count) const override {
    return sizeof(Header) + body_bytes(static_cast<std::size_t>(count),
                                       std::size_t{1} << block_bits(static_cast<std::size_t>(count)));
  }

  std::size_t encode(std::span<const float> values, const Memory& memory, std::uint64_t,
                     MutByteView out) const override {
    const unsigned block_log = block_bits(values.size());
    const std::size_t block = std::size_t{1} << block_log;
    std::size_t written = write_header(out, kWireId, own_byte(block_log), values.size());
    const Loops& fast = loops();
    for (std::size_t at = 0; at < values.size(); at += block) {
      const std::size_t n = std::min(block, values.size() - at);
      float* r = memory.residual.empty() ? nullptr : memory.residual.data() + at;
      auto* bits = reinterpret_cast<std::uint8_t*>(out.data() + written + sizeof(Means));
      float sums[2];
      std::int64_t negative = 0;
      fast.split_signs(values.data() + at, r, n, bits, sums, &negative);
      const std::int64_t positive = static_cast<std::int64_t>(n) - negative;
      const Means means{positive > 0 ? sums[0] / static_cast<float>(positive) : 0,
                        negative > 0 ? sums[1] / static_cast<float>(negative) : 0};
      std::memcpy(out.data() + written, &means, sizeof(means));
      if (r != nullptr) fast.subtract_signs(r, n, bits, means.high, means.low);
      written += sizeof(means) + bits_of(n);
    }
    return written;
  }

  Status add(ByteView encoded, std::span<float> out) const override {
    TR_ASSIGN_OR_RETURN(const Header header, take_header(encoded, kWireId, out.size()));
    const unsigned block_log = header.own == 0 ? kMostBlockBits : header.own;
    if (block_log < kLeastBlockBits || block_log > kMostBlockBits)
      return corrupt("1bit", fmt::format("blocks of 2^{} values", block_log));
    const std::size_t block = std::size_t{1} << block_log;
    const std::size_t expected = body_bytes(out.size(), block);
    if (encoded.size() != expected) return wrong_length("1bit", encoded.size(), expected);
    for (std::size_t at = 0; at < out.size(); at += block) {
      const std::size_t n = std::min(block, out.size() - at);
      Means means;
      std::memcpy(&means, encoded.data(), sizeof(means));
      loops().add_signs(out.data() + at, n,
                        reinterpret_cast<const std::uint8_t*>(encoded.data() + sizeof(means)), means.high,
                        means.low);
      encoded = encoded.subspan(sizeof(means) + bits_of(n));
    }
    return {};
  }
};

}  // namespace

extern const CodecRow kOneBit{
    .name = "1bit",
    .doc =
        "The sign of every value, and the means of both signs per block of 64 to 2048, by the tensor's size.",
    .paper = "Seide et al. 2014, 1-bit stochastic gradient descent",
    .wire_id = kWireId,
    .bound = Bound::kContraction,
    .needs_feedback = true,
    .bytes =
        [](const Options&, double count) {
          const unsigned bits = block_bits(static_cast<std::size_t>(std::max(count, 0.0)));
          return 8 + count * (0.125 + 8.0 / static_cast<double>(std::size_t{1} << bits));
        },
    .make = [](const Options&) -> Result<std::unique_ptr<Codec>> {
      return std::unique_ptr<Codec>(std::make_unique<OneBit>());
    },
    .safe_start = {.steps_before_momentum = 50}};

}  // namespace trireme::codec
