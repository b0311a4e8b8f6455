#include "trireme/start/start_note.h"

#include <algorithm>
#include <cstring>

#include "trireme/base/json.h"
#include "trireme/base/utf8.h"
#include "trireme/net/early_words.h"

namespace trireme::start {
namespace {

using net::EarlyWord;
using runtime::Task;

constexpr std::uint64_t kMaxBytes = 1U << 20;

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
  Bytes text = transport.rank() == 0 ? to_bytes(encode(note)) : Bytes();
  std::uint64_t size = text.size();
  Bytes head(sizeof(size));
  std::memcpy(head.data(), &size, sizeof(size));
  TR_CO_RETURN_IF_ERROR(co_await spread_from_first(rt, transport, EarlyWord::kStart, head));
  std::memcpy(&size, head.data(), sizeof(size));
  if (size > kMaxBytes)
    co_return error(Code::kCorrupt, "[launch] the word from rank 0 makes no sense: {} bytes", size);
  text.resize(size);
  TR_CO_RETURN_IF_ERROR(co_await spread_from_first(rt, transport, EarlyWord::kStartText, text));
  if (transport.rank() != 0) co_return decode(as_text(text), note);
  co_return Status();
}

Task<Result<std::vector<std::string>>> gather_hosts(runtime::Runtime& rt, net::Transport& transport,
                                                    std::string host) {
  constexpr std::size_t kNameBytes = 256;  // longer ones are cut
  Bytes own(kNameBytes);
  std::memcpy(own.data(), host.data(), std::min(host.size(), kNameBytes - 1));
  TR_CO_ASSIGN_OR_RETURN(const std::vector<Bytes> names,
                         co_await gather_at_first(rt, transport, EarlyWord::kHosts, std::move(own)));
  std::vector<std::string> hosts;
  for (const Bytes& name : names) {
    const std::string text(as_text(name).data(), strnlen(as_text(name).data(), kNameBytes));
    if (std::find(hosts.begin(), hosts.end(), text) == hosts.end()) hosts.push_back(text);
  }
  co_return hosts;
}

}  // namespace trireme::start
