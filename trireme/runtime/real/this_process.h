// Who this process is, for people who look for it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace trireme::runtime {

std::string host_name();  // "localhost" when the system does not say
std::int64_t process_id();
// Its words, the program first; none when the system does not say.
std::vector<std::string> command_line();

// Standard output and error may be pipes whose reader goes away: what is written then is lost, and the
// process goes on. Children have the usual behaviour.
void outlive_readers();

}  // namespace trireme::runtime
