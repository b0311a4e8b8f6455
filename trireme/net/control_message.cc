#include "trireme/net/control_message.h"

#include <algorithm>
#include <string_view>

namespace trireme::net {
namespace {

constexpr std::size_t kMaxText = 400;

void append_text(Bytes& out, std::string_view text) {
  text = text.substr(0, kMaxText);
  append_le(out, static_cast<std::uint16_t>(text.size()));
  const ByteView bytes = as_bytes(text);
  out.insert(out.end(), bytes.begin(), bytes.end());
}

bool take_text(ByteView& in, std::string& text) {
  std::uint16_t size = 0;
  if (!take_le(in, size) || size > kMaxText || size > in.size()) return false;
  text.assign(as_text(in.first(size)));
  in = in.subspan(size);
  return true;
}

}  // namespace

Bytes encode(const ControlMessage& m) {
  Bytes out;
  out.reserve(60 + std::min(kMaxText, m.operation.size()) + std::min(kMaxText, m.reason.size()));
  append_le(out, m.type);
  append_le(out, static_cast<std::uint8_t>(m.busy));
  append_le(out, m.code);
  append_le(out, static_cast<std::uint8_t>(m.patient));
  append_le(out, m.epoch);
  append_le(out, m.progress);
  append_le(out, m.stalled_ns);
  append_le(out, static_cast<std::int32_t>(m.peer));
  append_le(out, m.turn);
  append_le(out, m.call);
  append_le(out, m.digest);
  append_text(out, m.operation);
  append_text(out, m.reason);
  return out;
}

std::optional<ControlMessage> decode_control(ByteView in) {
  ControlMessage m;
  std::uint8_t type = 0, busy = 0, code = 0, patient = 0;
  std::int32_t peer = 0;
  const bool whole = take_le(in, type) && take_le(in, busy) && take_le(in, code) && take_le(in, patient) &&
                     take_le(in, m.epoch) && take_le(in, m.progress) && take_le(in, m.stalled_ns) &&
                     take_le(in, peer) && take_le(in, m.turn) && take_le(in, m.call) &&
                     take_le(in, m.digest) && take_text(in, m.operation) && take_text(in, m.reason) &&
                     in.empty();
  if (!whole || type < 1 || type > static_cast<std::uint8_t>(ControlType::kLost) || busy > 1 || patient > 1 ||
      code > static_cast<std::uint8_t>(Code::kInternal) || m.stalled_ns < 0)
    return std::nullopt;
  m.type = static_cast<ControlType>(type);
  const bool accuses =
      m.type == ControlType::kReport || m.type == ControlType::kVerdict || m.type == ControlType::kLost;
  if (accuses && (code == 0 || peer < 0)) return std::nullopt;
  if (m.type == ControlType::kCall && m.digest == 0) return std::nullopt;
  m.busy = busy != 0;
  m.patient = patient != 0;
  m.code = static_cast<Code>(code);
  m.peer = peer;
  return m;
}

}  // namespace trireme::net
