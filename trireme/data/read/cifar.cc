#include "trireme/data/read/cifar.h"

namespace trireme::data {
namespace {
constexpr std::size_t kPixels = 3 * 32 * 32;
}

int num_classes(CifarKind kind) {
  return kind == CifarKind::k10 ? 10 : kind == CifarKind::k100Fine ? 100 : 20;
}

Status append_cifar(Dataset& set, CifarKind kind, ByteView bytes, std::string_view source) {
  const std::size_t label_bytes = kind == CifarKind::k10 ? 1 : 2, record = label_bytes + kPixels;
  if (bytes.empty())
    return error(Code::kCorrupt, "[data] {}, offset 0: the file is empty; fetch it again", source);
  if (bytes.size() % record != 0)
    return error(Code::kCorrupt,
                 "[data] {}, offset {}: the file ends within a record: got {} bytes, expected {}; is it "
                 "CIFAR-{} in binary form?",
                 source, bytes.size(), bytes.size() % record, record, label_bytes == 1 ? 10 : 100);
  const std::size_t which = kind == CifarKind::k100Fine ? 1 : 0;
  for (std::size_t at = 0; at < bytes.size(); at += record) {
    const auto label = static_cast<std::int32_t>(bytes[at + which]);
    if (label >= num_classes(kind))
      return error(Code::kCorrupt,
                   "[data] {}, offset {}: label {}, expected 0 to {}; is it CIFAR-{} in binary form?", source,
                   at + which, label, num_classes(kind) - 1, label_bytes == 1 ? 10 : 100);
    set.labels.push_back(label);
    const auto* pixels = reinterpret_cast<const std::uint8_t*>(bytes.data() + at + label_bytes);
    set.pixels.append({pixels, kPixels});
  }
  return {};
}

}  // namespace trireme::data
