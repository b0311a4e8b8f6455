// One input of the fuzz target of packed messages (a bucket of several tensors). The first byte chooses the
// codec; the rest is added as a message, and as values it is packed and added again.
#pragma once

#include <cstring>
#include <vector>

#include "tests/fuzz/codec_target.h"
#include "trireme/codec/packer.h"

namespace trireme::codec {

inline constexpr std::size_t kFuzzPackedElems = 63;

// Packers of all codecs for tensors of 40, 3 (travels as it is) and 20 values.
inline std::vector<Packer> fuzz_packers() {
  std::vector<Packer> packers;
  for (const CodecRow& row : codec_table()) {
    auto made = Packer::make(row, fuzz_options(1), 0, packing_of({{0, 40}, {40, 3}, {43, 20}}, {}, 4));
    TR_CHECK(made.ok());
    packers.push_back(std::move(*made));
  }
  return packers;
}

// Whether the bytes were a message.
inline bool run_packer_target(ByteView bytes) {
  static const std::vector<Packer> packers = fuzz_packers();
  if (bytes.empty()) return false;
  const auto choice = static_cast<std::size_t>(bytes[0]);
  const Packer& packer = packers[choice % packers.size()];
  bytes = bytes.subspan(1);
  std::vector<float> values(kFuzzPackedElems), residual(kFuzzPackedElems), sum(kFuzzPackedElems);
  const bool right = packer.add(bytes, sum).ok();

  std::memcpy(values.data(), bytes.data(), std::min(bytes.size(), values.size() * sizeof(float)));
  Bytes message(packer.max_bytes());
  const std::size_t used = packer.pack(values, {residual, {}}, choice, message);
  TR_CHECK(used <= message.size());
  message.resize(used);
  const Status added = packer.add(message, sum);
  TR_CHECK(added.ok(), "{}", added.to_string());
  return right;
}

}  // namespace trireme::codec
