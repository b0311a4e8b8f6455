// Nonzero: the values that are not zero with their positions, or all values where that is shorter; exact. For
// sums of sparse vectors (Renggli et al., "SparCML: high-performance sparse communication for machine
// learning", SC 2019: index-value streams that become dense when fill-in makes it pay).
#include "trireme/codec/codec.h"
#include "trireme/codec/sparse.h"

namespace trireme::codec {
namespace {

constexpr std::uint8_t kWireId = 9;
constexpr std::uint8_t kDense = 255;  // in place of the parameter of positions

class Nonzero final : public Codec {
 public:
  std::size_t max_bytes(std::int64_t count) const override {
    return sizeof(Header) + 4 * static_cast<std::size_t>(count);
  }
  bool has_fixed_size() const override { return false; }

  std::size_t encode(std::span<const float> values, const Memory& memory, std::uint64_t,
                     MutByteView out) const override {
    const std::span<float> kept = memory.residual;
    for (std::size_t i = 0; i < kept.size(); ++i) kept[i] += values[i];
    const std::span<const float> from = kept.empty() ? values : std::span<const float>(kept);
    std::vector<std::uint32_t> chosen;
    const std::size_t most = from.size() / 2;  // more is never shorter
    for (std::size_t i = 0; i < from.size() && chosen.size() <= most; ++i)
      if (from[i] != 0) chosen.push_back(static_cast<std::uint32_t>(i));
    const std::size_t k = chosen.size(), n = from.size();
    std::size_t written = 0;
    if (k > most || sparse_max_bytes(k, n) >= 4 * n) {
      written = write_header(out, kWireId, kDense, n);
      if (n > 0) std::memcpy(out.data() + written, from.data(), from.size_bytes());
      written += from.size_bytes();
    } else {
      written = write_header(out, kWireId, static_cast<std::uint8_t>(rice_parameter(k, n)), n);
      written += write_sparse(from, chosen, out.subspan(written));
    }
    std::fill(kept.begin(), kept.end(), 0.0F);
    return written;
  }

  Status add(ByteView encoded, std::span<float> out) const override {
    TR_ASSIGN_OR_RETURN(const Header header, take_header(encoded, kWireId, out.size()));
    if (header.own != kDense) return add_sparse("nonzero", encoded, header.own, out);
    if (encoded.size() != 4 * out.size()) return wrong_length("nonzero", encoded.size(), 4 * out.size());
    for (std::size_t i = 0; i < out.size(); ++i) {
      float v = 0;
      std::memcpy(&v, encoded.data() + i * sizeof(float), sizeof(v));
      out[i] += v;
    }
    return {};
  }
};

}  // namespace

extern const CodecRow kNonzero{
    .name = "nonzero",
    .doc = "Values that are not zero with their positions, or all where that is shorter; exact.",
    .paper = "Renggli et al. 2019, SparCML: high-performance sparse communication for machine learning",
    .wire_id = kWireId,
    .bound = Bound::kExact,
    .needs_feedback = false,
    .bytes = [](const Options&, double count) { return 8 + 4 * count; },
    .make = [](const Options&) -> Result<std::unique_ptr<Codec>> {
      return std::unique_ptr<Codec>(std::make_unique<Nonzero>());
    }};

}  // namespace trireme::codec
