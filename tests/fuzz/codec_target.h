// One input of the fuzz target of codecs. Decodes the rest as an encoding; takes it as values too, encodes
// them, and decodes what came out.
#pragma once

#include <cstring>
#include <vector>

#include "trireme/base/bytes.h"
#include "trireme/base/check.h"
#include "trireme/codec/codec.h"

namespace trireme::codec {

// Whether the bytes were an encoding.
inline bool run_codec_target(ByteView bytes) {
  if (bytes.size() < 2) return false;
  const auto choice = static_cast<std::size_t>(bytes[0]), size = static_cast<std::size_t>(bytes[1]);
  bytes = bytes.subspan(2);
  const auto table = codec_table();
  Options options;
  options.bits = 2 << (choice / 8 % 3);
  options.fraction = choice / 24 % 2 == 0 ? 0.05 : 0.7;
  // The first eight by the low bits, so that inputs keep their meaning; those that came later from 192 on.
  constexpr std::size_t kFirst = 8, kLater = 192;
  const std::size_t row = choice < kLater ? choice % kFirst : kFirst + choice % (table.size() - kFirst);
  auto made = table[row].make(options);
  TR_CHECK(made.ok());
  const Codec& codec = **made;
  std::vector<float> out(size * (1 + choice / 48 % 4));
  const bool right = codec.decode(bytes, out).ok();
  std::vector<float> values(std::min<std::size_t>(bytes.size() / 4, 600)), residual(values.size());
  if (!values.empty()) std::memcpy(values.data(), bytes.data(), values.size() * 4);
  Bytes encoded(codec.max_bytes(static_cast<std::int64_t>(values.size())));
  const std::size_t used = codec.encode(values, {residual}, choice, encoded);
  TR_CHECK(used <= encoded.size());
  encoded.resize(used);
  const Status decoded = codec.decode(encoded, values);
  TR_CHECK(decoded.ok(), "{}", decoded.to_string());
  return right;
}

}  // namespace trireme::codec
