// One input of the fuzz targets of codecs. The first byte chooses options, the second the number of values;
// the rest is decoded as an encoding, or taken as values that are encoded and decoded again.
#pragma once

#include <array>
#include <cstring>
#include <vector>

#include "trireme/base/bytes.h"
#include "trireme/base/check.h"
#include "trireme/codec/wire.h"

namespace trireme::codec {

// The first byte: which options; id and number of values are put right, so that no edit is in vain; encoding.
inline constexpr std::size_t kFuzzOptions = 16, kFuzzRepair = 64, kFuzzEncode = 128;

inline Options fuzz_options(std::size_t choice) {
  constexpr int kBits[] = {2, 4, 8, 4};
  Options options;
  options.set("bits", kBits[choice % 4]);
  options.set("fraction", choice / 4 % 2 == 0 ? 0.05 : 0.7);
  if (choice / 8 % 2 == 1) options.set("tau", 0.5);
  if (choice / 8 % 2 == 1) options.set("clip", 0);
  return options;
}

// The codec with each set of options, made once.
using FuzzCodecs = std::array<std::unique_ptr<Codec>, kFuzzOptions>;
inline FuzzCodecs fuzz_codecs(const CodecRow& row) {
  FuzzCodecs codecs;
  for (std::size_t i = 0; i < kFuzzOptions; ++i) {
    auto made = row.make(fuzz_options(i));
    TR_CHECK(made.ok());
    codecs[i] = std::move(*made);
  }
  return codecs;
}

// Whether the bytes were decoded.
inline bool run_codec_target(const CodecRow& row, const FuzzCodecs& codecs, ByteView bytes) {
  if (bytes.size() < 2) return false;
  const auto choice = static_cast<std::size_t>(bytes[0]);
  // Up to 2,800 values: blocks of 1bit and buckets of qsgd are shorter.
  const std::size_t size =
      static_cast<std::size_t>(bytes[1]) * (choice / 16 % 4 == 3 ? 11 : 1 + choice / 16 % 4);
  const Codec& codec = *codecs[choice % kFuzzOptions];
  Bytes input(bytes.begin() + 2, bytes.end());
  if ((choice & kFuzzRepair) != 0 && input.size() >= sizeof(Header))
    write_header(input, row.wire_id, static_cast<std::uint8_t>(input[1]), size);
  if ((choice & kFuzzEncode) == 0) {
    std::vector<float> out(size);
    return codec.add(input, out).ok();
  }
  std::vector<float> values(input.size() / 4), residual(values.size());
  if (!values.empty()) std::memcpy(values.data(), input.data(), values.size() * 4);
  Bytes encoded(codec.max_bytes(static_cast<std::int64_t>(values.size())));
  const std::size_t used = codec.encode(values, {residual}, choice, encoded);
  TR_CHECK(used <= encoded.size());
  encoded.resize(used);
  const Status decoded = codec.add(encoded, values);
  TR_CHECK(decoded.ok(), "{}", decoded.to_string());
  return false;
}

}  // namespace trireme::codec
