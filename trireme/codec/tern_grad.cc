// TernGrad (Wen et al., "TernGrad: ternary gradients to reduce communication in distributed deep learning",
// NeurIPS 2017): values are cut to c standard deviations, and then -s, 0 or s with s the largest magnitude of
// the tensor, non-zero with probability |value| / s.
#include <algorithm>
#include <array>
#include <cmath>

#include "trireme/codec/codec.h"
#include "trireme/codec/levels.h"
#include "trireme/codec/loops.h"
#include "trireme/codec/wire.h"

namespace trireme::codec {
namespace {

constexpr std::uint8_t kWireId = 5;

constexpr OptionSpec kClip{
    .name = "clip",
    .default_value = 2.5,
    .doc = "terngrad: clip values beyond this many standard deviations (default 2.5); 0: no clipping.",
    .range = {.least = 0, .most = 1e6}};
constexpr OptionSpec kOptions[] = {kClip};
constexpr LevelFormat kFormat{2};

// About their mean, in eight lanes: the same order on every processor.
double standard_deviation(std::span<const float> values) {
  std::array<double, 8> sums{}, squares{};
  for (std::size_t i = 0; i < values.size(); ++i) {
    const double v = values[i];
    sums[i % 8] += v;
    squares[i % 8] += v * v;
  }
  double sum = 0, square = 0;
  for (std::size_t lane = 0; lane < 8; ++lane) sum += sums[lane], square += squares[lane];
  const auto n = static_cast<double>(values.size());
  return std::sqrt(std::max(0.0, square / n - sum / n * (sum / n)));
}

class TernGrad final : public Codec {
 public:
  explicit TernGrad(double clip_sigmas) : clip_sigmas_(clip_sigmas) {}

  std::size_t max_bytes(std::int64_t count) const override {
    return sizeof(Header) + sizeof(float) + kFormat.bytes_of(static_cast<std::size_t>(count));
  }

  std::size_t encode(std::span<const float> values, const Memory& memory, std::uint64_t key,
                     MutByteView out) const override {
    std::size_t written = write_header(out, kWireId, 0, values.size());
    float* r = memory.residual.empty() ? nullptr : memory.residual.data();
    float scale = loops().accumulate(values.data(), r, values.size());
    const float* from = r != nullptr ? r : values.data();
    if (clip_sigmas_ > 0 && !values.empty())
      scale = std::min(scale, static_cast<float>(clip_sigmas_ * standard_deviation({from, values.size()})));
    std::memcpy(out.data() + written, &scale, sizeof(scale));
    written += sizeof(scale);
    for (std::size_t at = 0; at < values.size(); at += kLevelBucket)
      written +=
          kFormat.write(from + at, r == nullptr ? nullptr : r + at,
                        std::min(kLevelBucket, values.size() - at), scale, key, at, out.data() + written);
    return written;
  }

  Status add(ByteView encoded, std::span<float> out) const override {
    TR_RETURN_IF_ERROR(take_header(encoded, kWireId, out.size()).status());
    const std::size_t expected = sizeof(float) + kFormat.bytes_of(out.size());
    if (encoded.size() != expected) return wrong_length("terngrad", encoded.size(), expected);
    float scale = 0;
    std::memcpy(&scale, encoded.data(), sizeof(scale));
    if (!kFormat.add(encoded.data() + sizeof(scale), out.size(), scale, out.data()))
      return corrupt("terngrad", "a level out of range");
    return {};
  }

 private:
  const double clip_sigmas_;
};

}  // namespace

extern const CodecRow kTernGrad{
    .name = "terngrad",
    .doc = "Minus, zero or plus one scale per tensor, values clipped first.",
    .paper = "Wen et al. 2017, TernGrad",
    .wire_id = kWireId,
    .bound = Bound::kUnbiased,
    .needs_feedback = false,
    .options = kOptions,
    .bytes = [](const Options&, double count) { return 12 + count / 4; },
    .make = [](const Options& o) -> Result<std::unique_ptr<Codec>> {
      const double clip = o.number(kClip);
      if (!(clip >= 0))
        return error(Code::kInvalid, "[codec] terngrad: got clip_sigmas {}, expected 0 or more", clip);
      return std::unique_ptr<Codec>(std::make_unique<TernGrad>(clip));
    }};

}  // namespace trireme::codec
