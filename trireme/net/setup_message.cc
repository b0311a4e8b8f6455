#include "trireme/net/setup_message.h"

#include <algorithm>

namespace trireme::net {
namespace {

constexpr std::size_t kMaxAddressText = 300, kMaxRefusalText = 1000;

Status nonsense(const char* what) {
  return error(Code::kCorrupt, "[net] a {} message makes no sense; is that a rank of this job?", what);
}

// By resize, not insert: GCC 12 sees an overflow in inlined inserts that is not there.
void append(Bytes& out, ByteView bytes) {
  const std::size_t at = out.size();
  out.resize(at + bytes.size());
  std::copy(bytes.begin(), bytes.end(), out.begin() + static_cast<std::ptrdiff_t>(at));
}
template <typename T>
void append_value(Bytes& out, T value) {
  append(out, std::as_bytes(std::span(&value, 1)));
}

void append_text(Bytes& out, std::string_view text) {
  append_value(out, static_cast<std::uint16_t>(text.size()));
  append(out, as_bytes(text));
}

bool take_text(ByteView& in, std::string& text, std::size_t limit) {
  std::uint16_t size = 0;
  if (!take_le(in, size) || size > limit || in.size() < size) return false;
  text = as_text(in.first(size));
  in = in.subspan(size);
  return true;
}

bool take_address(ByteView& in, runtime::HostPort& address) {
  std::string text;
  if (!take_text(in, text, kMaxAddressText)) return false;
  auto parsed = runtime::parse_host_port(text);
  if (!parsed.ok() || parsed->port == 0) return false;
  address = std::move(*parsed);
  return true;
}

void append_who(Bytes& out, const JobRank& who) {
  append_value(out, who.job);
  append_value(out, who.world);
  append_value(out, who.rank);
  append_value(out, who.epoch);
}

bool take_who(ByteView& in, JobRank& who) {
  return take_le(in, who.job) && take_le(in, who.world) && take_le(in, who.rank) && take_le(in, who.epoch) &&
         who.rank < who.world;
}

}  // namespace

Status check_same_job(const JobRank& got, const JobRank& own, std::string_view where) {
  const auto differs = [where](std::string_view what, auto theirs, auto ours) {
    return error(
        Code::kMismatch,
        "[net] ranks of different jobs met at '{}': got {} {}, expected {}; give each job a coordinator "
        "address of its own",
        where, what, theirs, ours);
  };
  if (got.job != own.job) return differs("job name with hash", got.job, own.job);
  if (got.world != own.world) return differs("world", got.world, own.world);
  if (got.epoch != own.epoch) return differs("epoch", got.epoch, own.epoch);
  return {};
}

Bytes encode(const JoinMessage& message) {
  Bytes out;
  append_who(out, message.who);
  append_text(out, message.address.to_string());
  return out;
}

Bytes encode(const HelloMessage& message) {
  Bytes out;
  append_who(out, message.who);
  append_value(out, message.channel);
  return out;
}

Bytes encode(const TableMessage& message) {
  Bytes out;
  append_value(out, static_cast<std::uint32_t>(message.size()));
  for (const runtime::HostPort& address : message) append_text(out, address.to_string());
  return out;
}

Bytes encode_refusal(const Status& why) {
  Bytes out;
  append_value(out, static_cast<std::uint8_t>(why.code()));
  append_text(out, std::string_view(why.message()).substr(0, kMaxRefusalText));
  return out;
}

Result<JoinMessage> parse_join(ByteView bytes) {
  JoinMessage m;
  if (!take_who(bytes, m.who) || !take_address(bytes, m.address) || !bytes.empty()) return nonsense("join");
  return m;
}

Result<HelloMessage> parse_hello(ByteView bytes) {
  HelloMessage m;
  if (!take_who(bytes, m.who) || !take_le(bytes, m.channel) || !bytes.empty()) return nonsense("hello");
  return m;
}

Result<TableMessage> parse_table(ByteView bytes) {
  std::uint32_t count = 0;
  TableMessage m;
  if (!take_le(bytes, count)) return nonsense("table");
  for (; count > 0; --count)
    if (!take_address(bytes, m.emplace_back())) return nonsense("table");
  if (!bytes.empty()) return nonsense("table");
  return m;
}

Status parse_refusal(ByteView bytes) {
  std::uint8_t code = 0;
  std::string text;
  if (!take_le(bytes, code) || code == 0 || code > static_cast<std::uint8_t>(Code::kInternal) ||
      !take_text(bytes, text, kMaxRefusalText) || !bytes.empty())
    return nonsense("refusal");
  ErrorContext context;
  context.reason = kRefusedReason;
  return Status(static_cast<Code>(code), std::move(text), std::move(context));
}

runtime::Task<Result<Bytes>> read_setup(runtime::Stream& stream, FrameType type, TimeNs deadline) {
  FrameHeaderBytes head;
  const MutByteView into(head);
  TR_CO_RETURN_IF_ERROR(co_await stream.read_exact(into, deadline));
  const auto header = parse_frame_header(head);
  if (!header.ok()) co_return header.status();
  if (header->type != type && header->type != FrameType::kRefusal) co_return nonsense("first");
  FrameParser parser;
  ByteView seen(head);
  if (auto event = parser.next(seen); !event.ok()) co_return event.status();
  Bytes payload(header->payload_bytes);  // bounded by the header's check
  Bytes trailer(payload.empty() ? 0 : kFrameTrailerBytes);
  TR_CO_RETURN_IF_ERROR(co_await stream.read_exact(payload, deadline));
  TR_CO_RETURN_IF_ERROR(co_await stream.read_exact(trailer, deadline));
  parser.took(payload);
  ByteView rest(trailer);
  if (auto event = parser.next(rest); !event.ok()) co_return event.status();
  if (header->type == FrameType::kRefusal) co_return parse_refusal(payload);
  co_return std::move(payload);
}

runtime::Task<Status> write_setup(runtime::Stream& stream, FrameType type, Bytes payload, TimeNs deadline) {
  const Bytes frame = make_frame(type, payload);
  co_return co_await stream.write_all(frame, deadline);
}

}  // namespace trireme::net
