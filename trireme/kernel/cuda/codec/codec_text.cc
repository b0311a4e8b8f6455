#include "trireme/kernel/cuda/codec/codec_text.h"

#include <fmt/format.h>

namespace trireme::kernel::cuda {

// One of each codec_*.cu.
extern const char kCodecCommonText[], kCodecF16Text[], kCodecBf16Text[], kCodecHalvesText[],
    kCodecOneBitText[], kCodecPlainText[], kCodecTopKText[], kCodecSumText[];

namespace {

// Every value is named, so the order is the one that was asked for.
std::string total_text(int num_messages, std::span<const Addition> additions) {
  std::string text = fmt::format(
      "constexpr int kMessages = {};\nstruct Messages {{ const u8* m[kMessages]; }};\n"
      "template <class L> __device__ __forceinline__ auto total(const L& load) {{\n",
      num_messages);
  const auto name = [&](int operand) {
    return operand < num_messages ? fmt::format("load({})", operand)
                                  : fmt::format("t{}", operand - num_messages);
  };
  for (std::size_t k = 0; k < additions.size(); ++k)
    text += fmt::format("  const auto t{} = add({}, {});\n", k, name(additions[k].left),
                        name(additions[k].right));
  const int last = additions.empty() ? 0 : num_messages + static_cast<int>(additions.size()) - 1;
  return text + fmt::format("  return {};\n}}\n", name(last));
}

}  // namespace

std::string message_text(Encoding encoding, int num_messages, std::span<const Addition> additions) {
  std::string text(kCodecCommonText);
  text += total_text(num_messages, additions);
  switch (encoding) {
    case Encoding::kF16:
      text.append(kCodecF16Text).append(kCodecHalvesText);
      break;
    case Encoding::kBf16:
      text.append(kCodecBf16Text).append(kCodecHalvesText);
      break;
    case Encoding::kOneBit:
      text.append(kCodecOneBitText);
      break;
    case Encoding::kTopK:
      text.append(kCodecPlainText).append(kCodecTopKText);
      break;
  }
  return text.append(kCodecSumText);
}

}  // namespace trireme::kernel::cuda
