// Starting ranks on other hosts through ssh, or any program that takes a host and a command line.
//
// A rank behind ssh lives as long as its standard input: "stop" there asks it to save and stop, "end" kills
// it, and when the input closes, because the connection or the launcher is gone, it is asked to stop and
// killed a minute later. So nothing is left running on other hosts.
#pragma once

#include <string>
#include <vector>

#include "trireme/launch/host_list.h"
#include "trireme/runtime/processes.h"

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
  std::vector<std::string> log_paths;  // per rank: standard output and error of ranks other than 0
};

// What starts each rank, for launch_ranks. kInvalid: more ranks than slots.
Result<std::vector<runtime::ProcessSpec>> remote_ranks(const RemoteSpec& spec);

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
