// libFuzzer target of the wire's frame parser (cmake/fuzz.cmake).
//
// A checksum guards every header, so random bytes would end there: inputs are repaired first, in half of the
// cases, by putting right checksums over headers that begin with the magic.
#include "tests/fuzz/frame_target.h"
#include "trireme/base/crc32c.h"

namespace {

void repair(trireme::Bytes& bytes) {
  using namespace trireme;
  using namespace trireme::net;
  for (std::size_t at = 1; at + kFrameHeaderBytes <= bytes.size();) {
    std::memcpy(bytes.data() + at, &kFrameMagic, sizeof(kFrameMagic));
    const std::uint32_t crc = crc32c(ByteView(bytes).subspan(at, kFrameHeaderBytes - 4));
    std::memcpy(bytes.data() + at + kFrameHeaderBytes - 4, &crc, sizeof(crc));
    const auto header = parse_frame_header(
        std::span<const std::byte, kFrameHeaderBytes>(bytes.data() + at, kFrameHeaderBytes));
    if (!header.ok()) return;
    at += kFrameHeaderBytes;
    const std::size_t payload = header->payload_bytes;
    if (payload == 0) continue;
    if (at + payload + kFrameTrailerBytes > bytes.size()) return;
    const std::uint32_t payload_crc = crc32c(ByteView(bytes).subspan(at, payload));
    std::memcpy(bytes.data() + at + payload, &payload_crc, sizeof(payload_crc));
    at += payload + kFrameTrailerBytes;
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto view = std::as_bytes(std::span(data, size));
  trireme::net::run_frame_target(view);
  if (size > 0 && (data[0] & 1) != 0) {
    trireme::Bytes repaired(view.begin(), view.end());
    repair(repaired);
    trireme::net::run_frame_target(repaired);
  }
  return 0;
}
