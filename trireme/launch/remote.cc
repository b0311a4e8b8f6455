#include "trireme/launch/remote.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "trireme/launch/variables.h"

namespace trireme::launch {
namespace {

// What runs on the host. `run` starts a rank, keeps its process id in a file and reports its end; that file
// becomes blank with the rank, so that nobody else's process is signalled. `say` makes lines of a HostReport.
// The last part beside them reads the commands, once all ranks have a process id. Ranks are told by TERM,
// since a shell's background processes ignore INT, and once: another TERM would end them. Descriptors 3 and 5
// are the connection's input and output: ssh ends when nobody holds the output any more. One line, since not
// every login shell takes quoted ones.
constexpr const char* kScript =
    "exec 3<&0 5>&1; {place}d=$(mktemp -d) || exit 1; {meet}"
    "say() {{ while IFS= read -r x || test -n \"$x\"; do printf '%s\\n' \"{mark} $1 >$x\"; done; }}; "
    "run() {{ {{ test $1 = 0 || exec 2>&1; "
    "{variables} TRIREME_RANK=$1 TRIREME_LOCAL_RANK=$2 {command} </dev/null 3<&- 5>&- & "
    "echo $! >\"$d/$1\"; wait $! 2>/dev/null; c=$?; echo >\"$d/$1\"; echo \"{mark} $1 =$c\" >&5; }} | say "
    "$1; }}; "
    "tell() {{ for f in \"$d\"/*; do p=$(cat \"$f\"); test -z \"$p\" || kill -$1 $p; done; }}; "
    "a=; l=0; for r in {ranks}; do run $r $l & a=\"$a $!\"; l=$((l+1)); done; "
    "( for r in {ranks}; do until test -s \"$d/$r\"; do sleep 0.1; done; done; "
    "t=; while read -r x; do case $x in stop) t=1; tell TERM;; end) tell KILL;; esac; done; "
    "test -n \"$t\" || tell TERM; sleep 60; tell KILL ) <&3 >/dev/null 2>&1 3<&- 5>&- & w=$!; "
    "exec 3<&- 5>&-; wait $a; kill $w 2>/dev/null; rm -rf \"$d\"{clean}; exit 0";

std::string join_quoted(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : " ") + shell_quote(word);
  return text;
}

std::string mark_of(const RemoteSpec& spec) { return "trireme-" + spec.job_id; }

std::string script_of(const RemoteSpec& spec, const std::vector<int>& ranks) {
  const std::string directory = fmt::format("\"${{TMPDIR:-/tmp}}/trireme-ssh-\"{}", shell_quote(spec.job_id));
  std::string variables = fmt::format("env TRIREME_WORLD={} TRIREME_LOCAL_WORLD={} TRIREME_COORDINATOR={}",
                                      spec.world, ranks.size(), shell_quote(spec.coordinator));
  std::string meet, clean;
  if (ranks.size() == static_cast<std::size_t>(spec.world)) {
    // On one host ranks may meet in a directory, and shared memory becomes possible.
    meet = fmt::format("mkdir -p -m 700 {}; ", directory);
    variables += fmt::format(" TRIREME_RENDEZVOUS={}", directory);
    clean = fmt::format(" {}", directory);
  }
  const std::string place =
      spec.directory.empty() ? "" : fmt::format("cd {} 2>/dev/null; ", shell_quote(spec.directory));
  std::vector<std::string> command{spec.binary};
  command.insert(command.end(), spec.arguments.begin(), spec.arguments.end());
  return fmt::format(fmt::runtime(kScript), fmt::arg("place", place), fmt::arg("meet", meet),
                     fmt::arg("mark", mark_of(spec)), fmt::arg("variables", variables),
                     fmt::arg("command", join_quoted(command)),
                     fmt::arg("ranks", fmt::format("{}", fmt::join(ranks, " "))), fmt::arg("clean", clean));
}

// "3 >text" or "3 =0", as behind the mark; false: it is neither.
bool take_line(std::string_view line, HostReport& report) {
  int rank = 0;
  const auto [end, failed] = std::from_chars(line.data(), line.data() + line.size(), rank);
  line.remove_prefix(static_cast<std::size_t>(end - line.data()));
  if (failed != std::errc() || rank < 0) return false;
  if (line.starts_with(" >")) {
    report.ranks[rank].text += fmt::format("{}\n", line.substr(2));
    return true;
  }
  int code = 0;
  if (!line.starts_with(" =")) return false;
  if (std::from_chars(line.data() + 2, line.data() + line.size(), code).ec != std::errc()) return false;
  report.ranks[rank].code = code;
  return true;
}

}  // namespace

std::string coordinator_of(const std::vector<Host>& hosts, std::string_view job_id) {
  return fmt::format("{}:{}", address_of(hosts.front()), port_of(job_id));
}

bool is_dropped_connection(std::string_view said) {
  while (said.ends_with('\n') || said.ends_with('\r')) said.remove_suffix(1);
  const std::string_view last = said.substr(said.rfind('\n') + 1);
  return last.starts_with("kex_exchange_identification: ") ||
         last.starts_with("ssh_exchange_identification: ") ||
         last.find("Exceeded MaxStartups") != std::string_view::npos;
}

std::string shell_quote(std::string_view text) {
  const auto plain = [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
           std::string_view("_-./:=,@%+").find(c) != std::string_view::npos;
  };
  if (!text.empty() && std::all_of(text.begin(), text.end(), plain)) return std::string(text);
  std::string out = "'";
  for (const char c : text) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return out + "'";
}

std::vector<std::string> split_words(std::string_view text) {
  std::vector<std::string> words(1);
  for (const char c : text) {
    if (c != ' ') {
      words.back() += c;
    } else if (!words.back().empty()) {
      words.emplace_back();
    }
  }
  if (words.back().empty()) words.pop_back();
  return words;
}

Result<std::vector<RankProcess>> remote_ranks(const RemoteSpec& spec) {
  TR_ASSIGN_OR_RETURN(const std::vector<int> place, place_ranks(spec.hosts, spec.world));
  std::vector<RankProcess> all;
  for (std::size_t h = 0; h < spec.hosts.size(); ++h) {
    RankProcess host;
    for (int r = 0; r < spec.world; ++r)
      if (place[static_cast<std::size_t>(r)] == static_cast<int>(h)) host.ranks.push_back(r);
    if (host.ranks.empty()) break;
    host.mark = mark_of(spec);
    host.process.argv = spec.ssh;
    host.process.argv.push_back(spec.hosts[h].name);
    host.process.argv.push_back("sh -c " + shell_quote(script_of(spec, host.ranks)));
    host.process.own_group = true;
    host.process.input_pipe = true;
    host.process.stdout_path = spec.log_paths[h];
    if (h > 0) host.process.stderr_path = spec.log_paths[h];
    all.push_back(std::move(host));
  }
  return all;
}

HostReport parse_report(std::string_view text, std::string_view mark) {
  HostReport report;
  for (std::size_t end = text.find('\n'); end != std::string_view::npos; end = text.find('\n')) {
    std::string_view line = text.substr(0, end);
    text.remove_prefix(end + 1);
    const bool marked = line.starts_with(mark) && line.substr(mark.size()).starts_with(' ');
    if (marked && take_line(line.substr(mark.size() + 1), report)) continue;
    if (line.ends_with('\r')) line.remove_suffix(1);
    report.other = line;
  }
  return report;
}

}  // namespace trireme::launch
