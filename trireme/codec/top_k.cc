// Top-k: the k values of the largest magnitude, exactly, with their positions (Aji and Heafield 2017; Lin et
// al. 2018). The others stay in the residual.
#include <algorithm>
#include <cmath>

#include "trireme/codec/codec.h"
#include "trireme/codec/loops.h"
#include "trireme/codec/options.h"
#include "trireme/codec/select.h"
#include "trireme/codec/sparse.h"

namespace trireme::codec {
namespace {

constexpr std::uint8_t kWireId = 7;

constexpr OptionSpec kOptions[] = {kFraction, kWarmupSteps};

class TopK final : public Codec {
 public:
  explicit TopK(double fraction) : fraction_(fraction) {}

  std::size_t max_bytes(std::int64_t count) const override {
    const auto n = static_cast<std::size_t>(count);
    return sizeof(Header) + sparse_max_bytes(kept(n), n);
  }

  bool has_fixed_size() const override { return false; }

  std::size_t encode(std::span<const float> values, const Memory& memory, std::uint64_t,
                     MutByteView out) const override {
    const bool keeps = !memory.residual.empty();
    if (keeps) loops().accumulate(values.data(), memory.residual.data(), values.size());
    const std::span<const float> from = keeps ? std::span<const float>(memory.residual) : values;
    const std::size_t k = kept(values.size());
    const std::vector<std::uint32_t> chosen = largest(from, k);
    const std::size_t written = write_header(
        out, kWireId, static_cast<std::uint8_t>(rice_parameter(k, values.size())), values.size());
    const std::size_t bytes = written + write_sparse(from, chosen, out.subspan(written));
    if (keeps)
      for (const std::uint32_t at : chosen) memory.residual[at] = 0;
    return bytes;
  }

  Status add(ByteView encoded, std::span<float> out) const override {
    TR_ASSIGN_OR_RETURN(const Header header, take_header(encoded, kWireId, out.size()));
    return add_sparse("topk", encoded, header.own, out);
  }

 private:
  std::size_t kept(std::size_t count) const { return share_of(count, fraction_); }
  const double fraction_;
};

}  // namespace

extern const CodecRow kTopK{
    .name = "topk",
    .doc = "The largest values with their positions; a fraction of them all.",
    .paper = "Aji and Heafield 2017, Sparse communication for distributed gradient descent",
    .wire_id = kWireId,
    .bound = Bound::kContraction,
    .needs_feedback = true,
    .options = kOptions,
    .bytes =
        [](const Options& o, double count) {
          const double fraction = o.number(kFraction);
          return 12 + fraction * count * (4 + (2.0 + std::log2(std::max(1.0, 1 / fraction))) / 8);
        },
    .make = [](const Options& o) -> Result<std::unique_ptr<Codec>> {
      const double fraction = o.number(kFraction);
      if (!kFraction.range.holds(fraction))
        return error(Code::kInvalid, "[codec] topk: got fraction {}, expected above 0 and at most 1",
                     fraction);
      return std::unique_ptr<Codec>(std::make_unique<TopK>(fraction));
    },
    .sends_few = true};

}  // namespace trireme::codec
