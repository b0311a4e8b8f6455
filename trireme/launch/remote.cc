#include "trireme/launch/remote.h"

#include <algorithm>

#include "trireme/launch/variables.h"

namespace trireme::launch {
namespace {

// What runs on the host: the rank with its input taken away, and beside it the reader of that input. The
// reader is told by TERM, since a shell's background processes ignore INT. Its own output is closed: ssh ends
// when nobody holds the connection's any more.
constexpr const char* kScript =
    "exec 3<&0; {place}{meet}{variables} {command} </dev/null & p=$!; "
    "( while read -r x; do case $x in stop) kill -TERM $p;; end) kill -KILL $p;; esac; done; "
    "kill -TERM $p; sleep 60; kill -KILL $p ) <&3 >/dev/null 2>&1 3<&- & w=$!; "
    "exec 3<&-; wait $p; c=$?; kill $w 2>/dev/null; {clean}exit $c";

std::string join_quoted(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : " ") + shell_quote(word);
  return text;
}

struct Place {
  int rank = 0, local_rank = 0, local_world = 1;
  bool one_host = false;
};

std::string script_of(const RemoteSpec& spec, const Place& at) {
  const std::string directory = fmt::format("\"${{TMPDIR:-/tmp}}/trireme-ssh-\"{}", shell_quote(spec.job_id));
  std::string variables = fmt::format(
      "env TRIREME_RANK={} TRIREME_WORLD={} TRIREME_LOCAL_RANK={} TRIREME_LOCAL_WORLD={} "
      "TRIREME_COORDINATOR={}",
      at.rank, spec.world, at.local_rank, at.local_world, shell_quote(spec.coordinator));
  std::string meet, clean;
  if (at.one_host) {
    // On one host ranks may meet in a directory, and shared memory becomes possible.
    meet = fmt::format("mkdir -p -m 700 {}; ", directory);
    variables += fmt::format(" TRIREME_RENDEZVOUS={}", directory);
    if (at.rank == 0) clean = fmt::format("rm -rf {}; ", directory);
  }
  const std::string place =
      spec.directory.empty() ? "" : fmt::format("cd {} 2>/dev/null; ", shell_quote(spec.directory));
  std::vector<std::string> command{spec.binary};
  command.insert(command.end(), spec.arguments.begin(), spec.arguments.end());
  return fmt::format(fmt::runtime(kScript), fmt::arg("place", place), fmt::arg("meet", meet),
                     fmt::arg("variables", variables), fmt::arg("command", join_quoted(command)),
                     fmt::arg("clean", clean));
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

Result<std::vector<runtime::ProcessSpec>> remote_ranks(const RemoteSpec& spec) {
  TR_ASSIGN_OR_RETURN(const std::vector<int> place, place_ranks(spec.hosts, spec.world));
  std::vector<runtime::ProcessSpec> ranks;
  for (int r = 0; r < spec.world; ++r) {
    const auto at = static_cast<std::size_t>(r);
    const auto here = [&](int host) { return host == place[at]; };
    Place p;
    p.rank = r;
    p.local_world = static_cast<int>(std::count_if(place.begin(), place.end(), here));
    p.local_rank = static_cast<int>(std::count_if(place.begin(), place.begin() + r, here));
    p.one_host = p.local_world == spec.world;
    runtime::ProcessSpec process;
    process.argv = spec.ssh;
    process.argv.push_back(spec.hosts[static_cast<std::size_t>(place[at])].name);
    process.argv.push_back("sh -c " + shell_quote(script_of(spec, p)));
    process.own_group = true;
    process.input_pipe = true;
    if (r > 0 && at < spec.log_paths.size()) process.stdout_path = process.stderr_path = spec.log_paths[at];
    ranks.push_back(std::move(process));
  }
  return ranks;
}

}  // namespace trireme::launch
