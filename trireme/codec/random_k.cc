// Random-k (Stich et al., "Sparsified SGD with memory", NeurIPS 2018): k values at random positions. The
// positions follow from a key, which travels instead of them.
#include "trireme/base/rng.h"
#include "trireme/codec/codec.h"
#include "trireme/codec/loops.h"
#include "trireme/codec/options.h"
#include "trireme/codec/select.h"
#include "trireme/codec/wire.h"

namespace trireme::codec {
namespace {

constexpr std::uint8_t kWireId = 8;

// A value waits 1 / fraction steps for its turn, however large it is: at 1 % most jobs diverge.
constexpr OptionSpec kShare = kFraction.with_default(0.1);
constexpr OptionSpec kOptions[] = {kShare, kWarmupSteps};

class RandomK final : public Codec {
 public:
  explicit RandomK(double fraction) : fraction_(fraction) {}

  std::size_t max_bytes(std::int64_t count) const override {
    return sizeof(Header) + 8 + 4 * kept(static_cast<std::size_t>(count));
  }

  std::size_t encode(std::span<const float> values, const Memory& memory, std::uint64_t key,
                     MutByteView out) const override {
    const bool keeps = !memory.residual.empty();
    if (keeps) loops().accumulate(values.data(), memory.residual.data(), values.size());
    const std::span<const float> from = keeps ? std::span<const float>(memory.residual) : values;
    std::size_t written = write_header(out, kWireId, 0, values.size());
    std::memcpy(out.data() + written, &key, sizeof(key));
    written += sizeof(key);
    const std::size_t k = kept(values.size());
    for (std::size_t i = 0; i < k; ++i) {
      const auto at = static_cast<std::size_t>(permute_index(key, values.size(), i));
      std::memcpy(out.data() + written, &from[at], sizeof(float));
      written += sizeof(float);
      if (keeps) memory.residual[at] = 0;
    }
    return written;
  }

  Status add(ByteView encoded, std::span<float> out) const override {
    TR_RETURN_IF_ERROR(take_header(encoded, kWireId, out.size()).status());
    const std::size_t k = kept(out.size());
    std::uint64_t key = 0;
    if (encoded.size() != sizeof(key) + 4 * k)
      return wrong_length("randomk", encoded.size(), sizeof(key) + 4 * k);
    std::memcpy(&key, encoded.data(), sizeof(key));
    for (std::size_t i = 0; i < k; ++i) {
      float v = 0;
      std::memcpy(&v, encoded.data() + sizeof(key) + 4 * i, sizeof(v));
      out[static_cast<std::size_t>(permute_index(key, out.size(), i))] += v;
    }
    return {};
  }

 private:
  std::size_t kept(std::size_t count) const { return share_of(count, fraction_); }
  const double fraction_;
};

}  // namespace

extern const CodecRow kRandomK{
    .name = "randomk",
    .doc = "Values at random positions that both sides draw; a fraction of them all.",
    .paper = "Stich et al. 2018, Sparsified SGD with memory",
    .wire_id = kWireId,
    .bound = Bound::kContraction,
    .needs_feedback = true,
    .options = kOptions,
    .bytes = [](const Options& o, double count) { return 16 + 4 * o.number(kShare) * count; },
    .make = [](const Options& o) -> Result<std::unique_ptr<Codec>> {
      const double fraction = o.number(kShare);
      if (!kShare.range.holds(fraction))
        return error(Code::kInvalid, "[codec] randomk: got fraction {}, expected above 0 and at most 1",
                     fraction);
      return std::unique_ptr<Codec>(std::make_unique<RandomK>(fraction));
    },
    .sends_few = true,
    .safe_start = {.dense_steps = 50, .warmup_steps = 200, .steps_before_momentum = 50}};

}  // namespace trireme::codec
