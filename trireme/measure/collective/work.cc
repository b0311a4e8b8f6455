#include "trireme/measure/collective/work.h"

#include <algorithm>
#include <array>
#include <charconv>

namespace trireme::measure {
namespace {

using collective::Kind;
using runtime::Task;

constexpr Kind kKinds[] = {Kind::kAllreduce,     Kind::kReduce,   Kind::kBroadcast,
                           Kind::kGather,        Kind::kScatter,  Kind::kAllgather,
                           Kind::kReduceScatter, Kind::kAllToAll, Kind::kBarrier};

constexpr std::size_t kMaxLine = 1U << 20;

std::string_view take_word(std::string_view& line) {
  const std::size_t space = line.find(' ');
  const std::string_view word = line.substr(0, space);
  line.remove_prefix(space == std::string_view::npos ? line.size() : space + 1);
  return word;
}

template <typename T>
bool take_number(std::string_view& line, T& value) {
  const std::string_view word = take_word(line);
  const auto [end, failure] = std::from_chars(word.data(), word.data() + word.size(), value);
  return failure == std::errc() && end == word.data() + word.size() && value >= 0;
}

Status nonsense(std::string_view line) {
  return error(Code::kCorrupt, "[bench] a line makes no sense: got '{}'", line.substr(0, 200));
}

}  // namespace

Result<Kind> parse_kind(std::string_view text) {
  std::string name(text);
  std::replace(name.begin(), name.end(), '-', '_');
  std::string names;
  for (const Kind kind : kKinds) {
    if (name == collective::kind_name(kind)) return kind;
    names += fmt::format("{}{}", names.empty() ? "" : ", ", collective::kind_name(kind));
  }
  return error(Code::kInvalid, "[bench] no such collective: got '{}', expected one of {}", text, names);
}

std::vector<std::string> kind_names() {
  std::vector<std::string> names;
  for (const Kind kind : kKinds) names.emplace_back(collective::kind_name(kind));
  return names;
}

bool has_blocks(Kind kind) {
  return kind == Kind::kGather || kind == Kind::kScatter || kind == Kind::kAllgather ||
         kind == Kind::kReduceScatter || kind == Kind::kAllToAll;
}

std::string to_line(const Work& w) {
  return fmt::format("measure {} {} {} {} {} {} {}", collective::kind_name(w.kind), w.elems,
                     w.in_place ? "in" : "out", w.algorithm.empty() ? "-" : w.algorithm, w.crowded ? 1 : 0,
                     w.warmup, w.calls);
}

Result<Work> work_from_line(std::string_view line) {
  std::string_view rest = line;
  if (take_word(rest) != "measure") return nonsense(line);
  Work w;
  const Result<Kind> kind = parse_kind(take_word(rest));
  if (!kind.ok()) return nonsense(line);
  w.kind = *kind;
  if (!take_number(rest, w.elems)) return nonsense(line);
  const std::string_view place = take_word(rest);
  if (place != "in" && place != "out") return nonsense(line);
  w.in_place = place == "in";
  w.algorithm = take_word(rest);
  if (w.algorithm == "-") w.algorithm.clear();
  int crowded = 0;
  if (!take_number(rest, crowded) || !take_number(rest, w.warmup) || !take_number(rest, w.calls) ||
      !rest.empty())
    return nonsense(line);
  w.crowded = crowded != 0;
  return w;
}

std::string to_cross_line(int count) { return fmt::format("cross {}", count); }

std::optional<int> cross_from_line(std::string_view line) {
  int count = 0;
  if (take_word(line) != "cross" || !take_number(line, count) || !line.empty() || count < 1)
    return std::nullopt;
  return count;
}

std::string times_line(const std::vector<TimeNs>& times) {
  std::string line = "times";
  for (const TimeNs t : times) line += fmt::format(" {}", t);
  return line;
}

Result<std::vector<TimeNs>> times_from_line(std::string_view line) {
  std::string_view rest = line;
  const std::string_view what = take_word(rest);
  if (what == "error") return Status(Code::kUnavailable, std::string(rest));
  if (what != "times") return nonsense(line);
  std::vector<TimeNs> times;
  while (!rest.empty()) {
    TimeNs t = 0;
    if (!take_number(rest, t)) return nonsense(line);
    times.push_back(t);
  }
  return times;
}

Task<Result<std::string>> LineReader::next(TimeNs deadline) {
  std::array<std::byte, 4096> block{};
  for (;;) {
    if (const std::size_t end = pending_.find('\n'); end != std::string::npos) {
      std::string line = pending_.substr(0, end);
      pending_.erase(0, end + 1);
      co_return line;
    }
    if (pending_.size() > kMaxLine) co_return nonsense(pending_);
    Result<std::size_t> got = co_await stream_.read_some(block, deadline);
    if (!got.ok()) co_return got.status();
    if (*got == 0) co_return error(Code::kPeerLost, "[bench] the stream ended");
    pending_ += as_text(ByteView(block).first(*got));
  }
}

Task<Status> write_line(runtime::Stream& stream, std::string line, TimeNs deadline) {
  for (char& c : line)
    if (c == '\n') c = ' ';
  line += '\n';
  co_return co_await stream.write_all(as_bytes(line), deadline);
}

}  // namespace trireme::measure
