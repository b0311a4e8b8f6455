// 1-bit SGD (Seide et al., "1-bit stochastic gradient descent and its application to data-parallel
// distributed training of speech DNNs", Interspeech 2014): with a = g + r, per block of values one bit each
// and two numbers, the means of the negative ones and of the others; r' = a - decoded.
#include <algorithm>

#include "trireme/codec/loops.h"
#include "trireme/codec/rows.h"
#include "trireme/codec/wire.h"

namespace trireme::codec {
namespace {

constexpr std::uint8_t kWireId = 3;
constexpr std::size_t kBlock = 2048;  // in the nearest cache between its two passes

struct Means {
  float high, low;
};

std::size_t bits_of(std::size_t count) { return (count + 7) / 8; }
std::size_t body_bytes(std::size_t count) {
  return (count + kBlock - 1) / kBlock * sizeof(Means) + count / kBlock * bits_of(kBlock) +
         bits_of(count % kBlock);
}

class OneBit final : public Codec {
 public:
  std::size_t max_bytes(std::int64_t count) const override {
    return sizeof(Header) + body_bytes(static_cast<std::size_t>(count));
  }

  std::size_t encode(std::span<const float> values, const Memory& memory, std::uint64_t,
                     MutByteView out) const override {
    std::size_t written = write_header(out, kWireId, 0, values.size());
    const Loops& fast = loops();
    for (std::size_t at = 0; at < values.size(); at += kBlock) {
      const std::size_t n = std::min(kBlock, values.size() - at);
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
    TR_RETURN_IF_ERROR(take_header(encoded, kWireId, out.size()).status());
    const std::size_t expected = body_bytes(out.size());
    if (encoded.size() != expected) return wrong_length("1bit", encoded.size(), expected);
    for (std::size_t at = 0; at < out.size(); at += kBlock) {
      const std::size_t n = std::min(kBlock, out.size() - at);
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

const CodecRow kOneBit{
    .name = "1bit",
    .doc = "The sign of every value, and the means of both signs per block of 2048.",
    .paper = "Seide et al. 2014, 1-bit stochastic gradient descent",
    .wire_id = kWireId,
    .bound = Bound::kContraction,
    .needs_feedback = true,
    .bytes = [](const Options&, double count) { return 8 + count * (0.125 + 8.0 / kBlock); },
    .make = [](const Options&) -> Result<std::unique_ptr<Codec>> {
      return std::unique_ptr<Codec>(std::make_unique<OneBit>());
    }};

}  // namespace trireme::codec
