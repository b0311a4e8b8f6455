// QSGD (Alistarh et al., "QSGD: communication-efficient SGD via gradient quantization and encoding",
// NeurIPS 2017): per bucket of 512 values the largest magnitude, and every value rounded at random to one of
// 2 s + 1 even levels, so that it is right on average. The largest magnitude instead of the 2-norm, as in the
// paper's experiments: less variance at the same size.
#include <algorithm>

#include "trireme/codec/codec.h"
#include "trireme/codec/levels.h"
#include "trireme/codec/loops.h"
#include "trireme/codec/wire.h"

namespace trireme::codec {
namespace {

constexpr std::uint8_t kWireId = 4;

constexpr std::string_view kWidths[] = {"2", "4", "8"};
constexpr OptionSpec kBits{.name = "bits",
                           .default_value = 4,
                           .doc = "qsgd: bits per value: 2, 4 (default) or 8.",
                           .range = {.choices = kWidths, .words = "2, 4 or 8"}};
constexpr OptionSpec kOptions[] = {kBits};

class Qsgd final : public Codec {
 public:
  explicit Qsgd(int bits) : format_{bits} {}

  std::size_t max_bytes(std::int64_t count) const override {
    return sizeof(Header) + body_bytes(static_cast<std::size_t>(count));
  }

  std::size_t encode(std::span<const float> values, const Memory& memory, std::uint64_t key,
                     MutByteView out) const override {
    std::size_t written = write_header(out, kWireId, static_cast<std::uint8_t>(format_.bits), values.size());
    for (std::size_t at = 0; at < values.size(); at += kLevelBucket) {
      const std::size_t n = std::min(kLevelBucket, values.size() - at);
      float* r = memory.residual.empty() ? nullptr : memory.residual.data() + at;
      const float scale = loops().accumulate(values.data() + at, r, n);
      std::memcpy(out.data() + written, &scale, sizeof(scale));
      written += sizeof(scale);
      written +=
          format_.write(r != nullptr ? r : values.data() + at, r, n, scale, key, at, out.data() + written);
    }
    return written;
  }

  Status add(ByteView encoded, std::span<float> out) const override {
    TR_ASSIGN_OR_RETURN(const Header header, take_header(encoded, kWireId, out.size()));
    if (header.own != format_.bits) return corrupt("qsgd", "another number of bits");
    const std::size_t expected = body_bytes(out.size());
    if (encoded.size() != expected) return wrong_length("qsgd", encoded.size(), expected);
    for (std::size_t at = 0; at < out.size(); at += kLevelBucket) {
      const std::size_t n = std::min(kLevelBucket, out.size() - at);
      float scale = 0;
      std::memcpy(&scale, encoded.data(), sizeof(scale));
      if (!format_.add(encoded.data() + sizeof(scale), n, scale, out.data() + at))
        return corrupt("qsgd", "a level out of range");
      encoded = encoded.subspan(sizeof(scale) + format_.bytes_of(n));
    }
    return {};
  }

 private:
  std::size_t body_bytes(std::size_t count) const {
    return (count + kLevelBucket - 1) / kLevelBucket * sizeof(float) +
           count / kLevelBucket * format_.bytes_of(kLevelBucket) + format_.bytes_of(count % kLevelBucket);
  }
  const LevelFormat format_;
};

}  // namespace

extern const CodecRow kQsgd{
    .name = "qsgd",
    .doc = "2, 4 or 8 bits per value, rounded at random within buckets of 512.",
    .paper = "Alistarh et al. 2017, QSGD",
    .wire_id = kWireId,
    .bound = Bound::kUnbiased,
    .needs_feedback = false,
    .options = kOptions,
    .bytes = [](const Options& o, double count) { return 8 + count * (o.number(kBits) / 8 + 4.0 / 512); },
    .make = [](const Options& o) -> Result<std::unique_ptr<Codec>> {
      const std::int64_t bits = o.integer(kBits);
      if (!kBits.range.holds(bits))
        return error(Code::kInvalid, "[codec] qsgd: got {} bits, expected 2, 4 or 8", bits);
      return std::unique_ptr<Codec>(std::make_unique<Qsgd>(static_cast<int>(bits)));
    }};

}  // namespace trireme::codec
