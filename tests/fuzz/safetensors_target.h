// One input of the safetensors reader's fuzz target. What decodes can be written, and what was written
// decodes to the same tensors and is written to the same bytes.
#pragma once

#include <algorithm>

#include "trireme/io/safetensors.h"

namespace trireme::io {

inline bool same_tensors(const NamedTensors& a, const NamedTensors& b) {
  const auto same = [](const auto& x, const auto& y) {
    const Tensor &s = x.second, &t = y.second;
    return x.first == y.first && s.type() == t.type() &&
           std::equal(s.raw(), s.raw() + s.type().num_bytes(), t.raw());
  };
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), same);
}

inline bool run_safetensors_target(ByteView bytes) {
  const Result<NamedTensors> tensors = decode_safetensors(bytes);
  if (!tensors.ok()) {
    TR_CHECK(!tensors.status().message().empty());
    return false;
  }
  std::size_t total = 0;
  for (const auto& [name, tensor] : *tensors) total += tensor.type().num_bytes();
  TR_CHECK(total <= bytes.size(), "{} bytes of tensors out of {}", total, bytes.size());
  const Result<Bytes> written = encode_safetensors(*tensors);
  TR_CHECK(written.ok(), "{}", written.status().to_string());
  const Result<NamedTensors> second = decode_safetensors(*written);
  TR_CHECK(second.ok(), "{}", second.status().to_string());
  TR_CHECK(same_tensors(*tensors, *second));
  const Result<Bytes> again = encode_safetensors(*second);
  TR_CHECK(again.ok() && *again == *written);
  return true;
}

}  // namespace trireme::io
