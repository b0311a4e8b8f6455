#include "trireme/codec/codec.h"

namespace trireme::codec {

// Each is defined in a file of its own.
extern const CodecRow kFp16, kBf16, kOneBit, kQsgd, kTernGrad, kThreshold, kTopK, kRandomK, kNonzero;

// Wire ids stay what they are: 1 fp16, 2 bf16, 3 1bit, 4 qsgd, 5 terngrad, 6 threshold, 7 topk, 8 randomk, 9
// nonzero.
std::span<const CodecRow> codec_table() {
  static const CodecRow kRows[] = {kFp16,      kBf16, kOneBit,  kQsgd,   kTernGrad,
                                   kThreshold, kTopK, kRandomK, kNonzero};
  return kRows;
}

Result<const CodecRow*> find_codec(std::string_view name) {
  std::string known;
  for (const CodecRow& row : codec_table()) {
    if (name == row.name) return &row;
    known += fmt::format("{}{}", known.empty() ? "" : ", ", row.name);
  }
  return error(Code::kNotFound, "[codec] no codec is called '{}'; expected one of: {}", name, known);
}

}  // namespace trireme::codec
