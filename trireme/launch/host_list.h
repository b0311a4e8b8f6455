// The hosts of a job: lines "name [slots=N]"; "#" starts a comment.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "trireme/base/status.h"

namespace trireme::launch {

struct Host {
  std::string name;  // as ssh takes it: "node1", "10.0.0.7", "me@node1"
  int slots = 1;     // ranks that it takes
};

// `source` names the text in errors: "hosts.txt:3: ...".
Result<std::vector<Host>> parse_hosts(std::string_view text, std::string_view source);

int num_slots(const std::vector<Host>& hosts);

// The host of each rank, by position in `hosts`: one after the other, each filled before the next. kInvalid:
// fewer slots than ranks.
Result<std::vector<int>> place_ranks(const std::vector<Host>& hosts, int world);

// The name without "me@".
std::string address_of(const Host& host);
bool is_loopback(std::string_view address);

}  // namespace trireme::launch
