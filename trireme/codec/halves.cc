#include "trireme/codec/halves.h"

#include <algorithm>
#include <cmath>

#include "trireme/codec/wire.h"

namespace trireme::codec {
namespace {

constexpr std::size_t kChunk = 2048;  // temporaries stay in the nearest cache

class HalfCodec final : public Codec {
 public:
  explicit HalfCodec(const HalfFormat& format) : f_(format) {}

  std::size_t max_bytes(std::int64_t count) const override {
    return sizeof(Header) + 2 * static_cast<std::size_t>(count);
  }

  std::size_t encode(std::span<const float> values, const Memory& memory, std::uint64_t,
                     MutByteView out) const override {
    const std::size_t begin = write_header(out, f_.wire_id, 0, values.size());
    std::uint16_t halves[kChunk];
    float sum[kChunk];
    for (std::size_t at = 0; at < values.size(); at += kChunk) {
      const std::size_t n = std::min(kChunk, values.size() - at);
      float* r = memory.residual.empty() ? nullptr : memory.residual.data() + at;
      for (std::size_t i = 0; i < n; ++i) {
        const float a = r == nullptr ? values[at + i] : values[at + i] + r[i];
        if (r != nullptr) r[i] = a;
        sum[i] = a > f_.largest ? f_.largest : a < -f_.largest ? -f_.largest : a;
      }
      f_.to(sum, halves, n);
      std::memcpy(out.data() + begin + 2 * at, halves, 2 * n);
      if (r == nullptr) continue;
      std::fill_n(sum, n, 0.0F);
      f_.add(halves, sum, n);
      for (std::size_t i = 0; i < n; ++i) r[i] -= sum[i];
    }
    return begin + 2 * values.size();
  }

  Status add(ByteView encoded, std::span<float> out) const override {
    TR_RETURN_IF_ERROR(take_header(encoded, f_.wire_id, out.size()).status());
    if (encoded.size() != 2 * out.size()) return wrong_length(f_.name, encoded.size(), 2 * out.size());
    std::uint16_t halves[kChunk];
    for (std::size_t at = 0; at < out.size(); at += kChunk) {
      const std::size_t n = std::min(kChunk, out.size() - at);
      std::memcpy(halves, encoded.data() + 2 * at, 2 * n);
      f_.add(halves, out.data() + at, n);
    }
    return {};
  }

 private:
  const HalfFormat& f_;
};

}  // namespace

std::unique_ptr<Codec> make_half(const HalfFormat& format) { return std::make_unique<HalfCodec>(format); }

}  // namespace trireme::codec
