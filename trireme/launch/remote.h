// Starting ranks on other hosts through ssh, or any program that takes a host and a command line: one
// connection per host, whose shell starts all ranks of that host.
//
// The ranks live as long as the standard input of that shell: "stop" there asks them to save and stop, "end"
// kills them, and when the input closes, because the connection or the launcher is gone, they are asked to
// stop and killed a minute later. So nothing is left running on other hosts. What the ranks write and how
// each of them ended comes back as a HostReport; only rank 0's standard error is the connection's.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "trireme/launch/host_list.h"
#include "trireme/launch/launch.h"

namespace trireme::launch {

struct RemoteSpec {
  std::vector<Host> hosts;
  int world = 1;
  std::vector<std::string> ssh;        // words before the host: {"ssh", "-p", "2222"}
  std::string binary;                  // its path there
  std::vector<std::string> arguments;  // of the binary
  std::string coordinator;             // "host:port" of rank 0
  std::string directory;               // where ranks start, on hosts that have it; else at home
  std::string job_id;                  // a word; names the meeting place when there is one host
  std::vector<std::string> log_paths;  // per host: its HostReport, with what ssh itself says
};

// What starts the ranks of each host, for launch_ranks. kInvalid: more ranks than slots.
Result<std::vector<RankProcess>> remote_ranks(const RemoteSpec& spec);

// What a host has told so far: lines "<mark> <rank> ><text>" of what a rank writes, and
// "<mark> <rank> =<code>" of how it ended. Other lines are ssh's own. A line without its end is not there
// yet.
struct HostReport {
  struct Rank {
    std::string text;         // whole lines
    std::optional<int> code;  // as of a shell: above 128 a signal
  };
  std::map<int, Rank> ranks;
  std::string other;  // the last line that is of no rank
};
HostReport parse_report(std::string_view text, std::string_view mark);

// Where rank 0 listens: the first host, with a port that follows from the job's id.
std::string coordinator_of(const std::vector<Host>& hosts, std::string_view job_id);

// Whether ssh's last line says that sshd dropped the connection before anybody logged in: too many came at
// once.
bool is_dropped_connection(std::string_view said);

// As one word of a POSIX shell.
std::string shell_quote(std::string_view text);
// Blanks separate words; no quotes.
std::vector<std::string> split_words(std::string_view text);

}  // namespace trireme::launch
