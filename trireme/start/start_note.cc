#include "trireme/start/start_note.h"

#include <algorithm>
#include <cstring>

#include "trireme/base/json.h"
#include "trireme/base/utf8.h"
#include "trireme/runtime/sync.h"

namespace trireme::start {
namespace {

using runtime::Task;

// Rank 0 has opened the folder before it connected, so the note comes at once.
constexpr TimeNs kPatience = 10 * kSecond;
constexpr std::uint64_t kMaxBytes = 1U << 20;
constexpr net::Fingerprint kFingerprint{.kind = 255, .dtype = 0, .format = 0, .count = 0};

// Group 65535 is nobody's.
net::Identity note_identity(std::uint32_t part) {
  return {.epoch = 1, .group = 0xFFFF, .slot = 0, .step = 0, .part = part};
}

class All final : public net::Completion {
 public:
  All(runtime::Runtime& rt, int count) : done(rt), left_(count) {}
  void on_complete(std::uint64_t, const Status& status) override {
    if (!status.ok()) first_ = first_.ok() ? status : first_;
    if (--left_ == 0) done.set(first_);
  }
  runtime::OneShot<Status> done;

 private:
  int left_;
  Status first_;
};

// When all transfers are done. At the deadline their buffers are taken back.
Task<Status> ended(runtime::Runtime& rt, net::Transport& transport, All& all, TimeNs deadline) {
  const bool in_time = co_await all.done.wait_until(deadline);
  if (in_time) co_return all.done.value();
  const bool root = transport.rank() == 0;
  const Status late =
      error(Code::kDeadline,
            "[launch] rank {}: no word {} within {} about how to start; see the logs of the other ranks",
            transport.rank(), root ? "taken" : "from rank 0", format_duration(kPatience));
  transport.poison(late, nullptr);  // gives the buffer back
  co_await all.done.wait_until(rt.now() + kSecond);
  co_return late;
}

// The bytes from rank 0 to everybody. `bytes` keeps its size.
Task<Status> spread(runtime::Runtime& rt, net::Transport& transport, std::uint32_t part, Bytes& bytes,
                    TimeNs deadline) {
  const bool root = transport.rank() == 0;
  All all(rt, root ? transport.world() - 1 : 1);
  const net::Identity id = note_identity(part);
  const net::View view{bytes.data(), bytes.size()};
  if (!root) transport.recv(0, id, kFingerprint, view, &all, 0);
  for (int peer = 1; root && peer < transport.world(); ++peer)
    transport.send(peer, id, kFingerprint, view, &all, 0);
  co_return co_await ended(rt, transport, all, deadline);
}

std::string encode(const StartNote& note) {
  return Json{{"run_dir", escape_bytes(note.run_dir)},
              {"finished", note.finished},
              {"code", static_cast<int>(note.failure.code())},
              {"message", note.failure.message()}}
      .dump();
}

Status decode(std::string_view text, StartNote& note) {
  TR_ASSIGN_OR_RETURN(const Json json, parse_json(text, "the word from rank 0"));
  TR_ASSIGN_OR_RETURN(const std::string run_dir, json_get<std::string>(json, "run_dir"));
  TR_ASSIGN_OR_RETURN(note.run_dir, unescape_bytes(run_dir));
  TR_ASSIGN_OR_RETURN(note.finished, json_get<bool>(json, "finished"));
  TR_ASSIGN_OR_RETURN(const int code, json_get<int>(json, "code"));
  TR_ASSIGN_OR_RETURN(const std::string message, json_get<std::string>(json, "message"));
  if (code < 0 || code > static_cast<int>(Code::kInternal))
    return error(Code::kCorrupt, "[launch] the word from rank 0 makes no sense: code {}", code);
  note.failure = code == 0 ? Status() : Status(static_cast<Code>(code), message);
  return {};
}

}  // namespace

Task<Status> share_start_note(runtime::Runtime& rt, net::Transport& transport, StartNote& note) {
  if (transport.world() == 1) co_return Status();
  const TimeNs deadline = rt.now() + kPatience;
  Bytes text = transport.rank() == 0 ? to_bytes(encode(note)) : Bytes();
  std::uint64_t size = text.size();
  Bytes head(sizeof(size));
  std::memcpy(head.data(), &size, sizeof(size));
  TR_CO_RETURN_IF_ERROR(co_await spread(rt, transport, 0, head, deadline));
  std::memcpy(&size, head.data(), sizeof(size));
  if (size > kMaxBytes)
    co_return error(Code::kCorrupt, "[launch] the word from rank 0 makes no sense: {} bytes", size);
  text.resize(size);
  TR_CO_RETURN_IF_ERROR(co_await spread(rt, transport, 1, text, deadline));
  if (transport.rank() != 0) co_return decode(as_text(text), note);
  co_return Status();
}

Task<Result<std::vector<std::string>>> gather_hosts(runtime::Runtime& rt, net::Transport& transport,
                                                    std::string host) {
  constexpr std::size_t kNameBytes = 256;  // longer ones are cut
  constexpr std::uint32_t kPart = 2;
  const bool root = transport.rank() == 0;
  const int others = transport.world() - 1;
  std::vector<std::string> hosts;
  if (root) hosts.push_back(host);
  if (others == 0) co_return hosts;
  std::vector<Bytes> names(static_cast<std::size_t>(root ? others : 1), Bytes(kNameBytes));
  All all(rt, root ? others : 1);
  if (!root) {
    std::memcpy(names[0].data(), host.data(), std::min(host.size(), kNameBytes - 1));
    transport.send(0, note_identity(kPart), kFingerprint, {names[0].data(), kNameBytes}, &all, 0);
  }
  for (int peer = 1; root && peer <= others; ++peer)
    transport.recv(peer, note_identity(kPart), kFingerprint,
                   {names[static_cast<std::size_t>(peer - 1)].data(), kNameBytes}, &all, 0);
  TR_CO_RETURN_IF_ERROR(co_await ended(rt, transport, all, rt.now() + kPatience));
  for (const Bytes& name : names) {
    if (!root) break;
    const std::string text(as_text(name).data(), strnlen(as_text(name).data(), kNameBytes));
    if (std::find(hosts.begin(), hosts.end(), text) == hosts.end()) hosts.push_back(text);
  }
  co_return hosts;
}

}  // namespace trireme::start
