#include "trireme/comm/device/message_format.h"

#include <array>

#include "trireme/codec/bits.h"
#include "trireme/codec/blocks.h"
#include "trireme/codec/options.h"
#include "trireme/codec/select.h"

namespace trireme::comm {

namespace gpu = kernel::cuda;

namespace {

struct Known {
  std::string_view codec;
  gpu::Encoding encoding;
};
const Known* find(const codec::CodecRow& row) {
  static const std::array<Known, 4> kKnown{
      Known{"fp16", gpu::Encoding::kF16}, Known{"bf16", gpu::Encoding::kBf16},
      Known{"1bit", gpu::Encoding::kOneBit}, Known{"topk", gpu::Encoding::kTopK}};
  for (const Known& known : kKnown)
    if (known.codec == row.name) return &known;
  return nullptr;
}

}  // namespace

bool has_device_codec(const codec::CodecRow& row) { return find(row) != nullptr; }
bool is_half(const codec::CodecRow& row) {
  const Known* const known = find(row);
  return known != nullptr &&
         (known->encoding == gpu::Encoding::kF16 || known->encoding == gpu::Encoding::kBf16);
}

Result<gpu::MessageFormat> device_format(const codec::CodecRow& row, const codec::Options& options,
                                         double momentum, const codec::Packing& packing,
                                         std::int64_t num_elems) {
  const Known* const known = find(row);
  if (known == nullptr)
    return error(Code::kInvalid, "[comm] codec '{}' has no kernels on a GPU; got it for a sum there",
                 row.name);
  TR_ASSIGN_OR_RETURN(const std::unique_ptr<codec::Codec> codec, row.make(options));
  gpu::MessageFormat format;
  format.encoding = known->encoding;
  format.wire_id = row.wire_id;
  format.num_elems = num_elems;
  format.momentum = static_cast<float>(momentum);
  auto at = static_cast<std::int64_t>(packing.coded.size() * sizeof(std::uint32_t));
  for (const codec::ElementRange& p : packing.plain) {
    format.plain.push_back({p.offset, p.count, at});
    at += p.count * static_cast<std::int64_t>(sizeof(float));
  }
  for (const codec::ElementRange& p : packing.coded) {
    const auto count = static_cast<std::size_t>(p.count);
    gpu::MessagePiece piece{p.offset, p.count, at};
    if (known->encoding == gpu::Encoding::kTopK) {
      const std::size_t kept = codec::share_of(count, options.number(codec::kFraction));
      piece.kept = static_cast<std::int64_t>(kept);
      piece.rice = codec::rice_parameter(kept, count);
    }
    if (known->encoding == gpu::Encoding::kOneBit) piece.rice = codec::block_bits(count);
    format.coded.push_back(piece);
    at += static_cast<std::int64_t>(codec->max_bytes(p.count));
  }
  format.most_bytes = at;
  return format;
}

HalvesFormat halves_format(const codec::CodecRow& row, double momentum, const codec::Packing& packing,
                           std::int64_t num_elems) {
  constexpr std::int64_t kAlign = 512;
  HalvesFormat out;
  gpu::MessageFormat& format = out.format;
  format.encoding = find(row)->encoding;
  format.framed = false;
  format.num_elems = num_elems;
  format.momentum = static_cast<float>(momentum);
  for (const codec::ElementRange& p : packing.plain) {
    format.plain.push_back({p.offset, p.count, 4 * out.num_plain});
    out.num_plain += p.count;
  }
  out.halves_at = (4 * out.num_plain + kAlign - 1) / kAlign * kAlign;
  for (const codec::ElementRange& p : packing.coded) {
    format.coded.push_back({p.offset, p.count, out.halves_at + 2 * out.num_halves});
    out.num_halves += p.count;
  }
  format.most_bytes = out.halves_at + 2 * out.num_halves;
  out.dtype = format.encoding == gpu::Encoding::kF16 ? DType::kF16 : DType::kBF16;
  return out;
}

gpu::MessageFormat dense_format(std::int64_t num_elems) {
  gpu::MessageFormat format;
  format.framed = false;
  format.num_elems = num_elems;
  format.plain = {{0, num_elems, 0}};
  format.most_bytes = 4 * num_elems;
  return format;
}

}  // namespace trireme::comm
