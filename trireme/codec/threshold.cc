// Threshold (Strom, "Scalable distributed DNN training using commodity GPU cloud computing", Interspeech
// 2015): where |a| >= tau, a = g + r, the sign and the position travel and the decoder adds +-tau; tau is
// taken from the residual, which is not set to zero. tau may be fixed, or
// is what the wanted share of a sample of |a| reaches.
#include <algorithm>
#include <cmath>
#include <limits>

#include "trireme/codec/bits.h"
#include "trireme/codec/codec.h"
#include "trireme/codec/loops.h"
#include "trireme/codec/options.h"
#include "trireme/codec/select.h"
#include "trireme/codec/wire.h"

namespace trireme::codec {
namespace {

constexpr std::uint8_t kWireId = 6;

constexpr OptionSpec kTau{
    .name = "tau",
    .default_value = 0.0,
    .doc = "threshold: values of at least this magnitude are sent. Default, or 0: adaptive.",
    .range = {.least = 0, .most = 1e30, .words = "between 0 and 1e30"}};
constexpr OptionSpec kOptions[] = {kTau, kFraction, kWarmupSteps};

class Threshold final : public Codec {
 public:
  Threshold(double tau, double fraction) : tau_(static_cast<float>(tau)), fraction_(fraction) {}

  // Two bits per value if all are sent, and their signs.
  std::size_t max_bytes(std::int64_t count) const override {
    const auto n = static_cast<std::size_t>(count);
    return sizeof(Header) + 8 + (n + 7) / 8 + 2 * n / 8 + 9;
  }

  bool has_fixed_size() const override { return false; }

  std::size_t encode(std::span<const float> values, const Memory& memory, std::uint64_t,
                     MutByteView out) const override {
    const bool keeps = !memory.residual.empty();
    if (keeps) loops().accumulate(values.data(), memory.residual.data(), values.size());
    const std::span<const float> from = keeps ? std::span<const float>(memory.residual) : values;
    const float tau = threshold_for(from);
    const std::vector<std::uint32_t> chosen = positions_above(from, tau);
    const unsigned parameter = rice_parameter(chosen.size(), values.size());
    std::size_t written = write_header(out, kWireId, static_cast<std::uint8_t>(parameter), values.size());
    const auto count = static_cast<std::uint32_t>(chosen.size());
    std::memcpy(out.data() + written, &tau, sizeof(tau));
    std::memcpy(out.data() + written + 4, &count, sizeof(count));
    written += 8;
    std::memset(out.data() + written, 0, (chosen.size() + 7) / 8);
    for (std::size_t i = 0; i < chosen.size(); ++i) {
      const float a = from[chosen[i]];
      if (std::signbit(a)) out[written + i / 8] |= static_cast<std::byte>(1U << (i % 8));
      if (keeps) memory.residual[chosen[i]] = a - std::copysign(tau, a);
    }
    written += (chosen.size() + 7) / 8;
    return written + write_positions(chosen, parameter, out.subspan(written));
  }

  Status add(ByteView encoded, std::span<float> out) const override {
    TR_ASSIGN_OR_RETURN(const Header header, take_header(encoded, kWireId, out.size()));
    float tau = 0;
    std::uint32_t count = 0;
    if (!take_le(encoded, tau) || !take_le(encoded, count) || count > out.size() ||
        encoded.size() < (std::size_t{count} + 7) / 8)
      return corrupt("threshold", "it is cut off, or has more values than the tensor");
    const ByteView signs = encoded.subspan(0, (std::size_t{count} + 7) / 8);
    const bool right = read_positions(encoded.subspan(signs.size()), header.own, count, out.size(),
                                      [&](std::uint32_t i, std::size_t at) {
                                        const auto byte = static_cast<unsigned>(signs[i / 8]);
                                        out[at] += (byte >> (i % 8) & 1U) != 0 ? -tau : tau;
                                      });
    return right ? Status() : corrupt("threshold", "a position out of range, or bytes left over");
  }

 private:
  static constexpr float kLeast = 1e-30F;  // nobody sends zeros

  float threshold_for(std::span<const float> from) const {
    const float tau = tau_ > 0 ? tau_ : sampled_limit(from, fraction_);
    return std::isfinite(tau) ? std::max(kLeast, tau) : std::numeric_limits<float>::max();
  }

  const float tau_;
  const double fraction_;
};

}  // namespace

extern const CodecRow kThreshold{
    .name = "threshold",
    .doc = "Plus or minus tau where a value has reached it, with its position; tau given or adapted.",
    .paper = "Strom 2015, Scalable distributed DNN training using commodity GPU cloud computing",
    .wire_id = kWireId,
    .bound = Bound::kFeedback,
    .needs_feedback = true,
    .options = kOptions,
    .bytes =
        [](const Options& o, double count) {
          const double fraction = o.number(kFraction);
          return 16 + fraction * count * (3.0 + std::log2(std::max(1.0, 1 / fraction))) / 8;
        },
    .make = [](const Options& o) -> Result<std::unique_ptr<Codec>> {
      const double tau = o.number(kTau), fraction = o.number(kFraction);
      if (!(tau >= 0) || !std::isfinite(tau) || !kFraction.range.holds(fraction))
        return error(
            Code::kInvalid,
            "[codec] threshold: got tau {} and fraction {}, expected tau 0 or more, fraction above 0 and "
            "at most 1",
            tau, fraction);
      return std::unique_ptr<Codec>(std::make_unique<Threshold>(tau, fraction));
    },
    .sends_few = true};

}  // namespace trireme::codec
