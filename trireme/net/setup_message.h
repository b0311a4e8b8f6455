// What ranks say to each other before messages flow: joining, the table of addresses, hello, refusal. Each
// is the payload of one frame (frame.h); docs/format_wire.md gives the bytes.
#pragma once

#include <string>
#include <vector>

#include "trireme/net/frame.h"
#include "trireme/runtime/network.h"

namespace trireme::net {

// Who speaks; the same on every rank of a job except the rank.
struct JobRank {
  std::uint64_t job = 0;  // hash of the job's name, 0: none given
  std::uint32_t world = 1, rank = 0, epoch = 1;
};
// ok, or kMismatch that says what differs: `got` is the peer's.
Status check_same_job(const JobRank& got, const JobRank& own, std::string_view where);

struct JoinMessage {
  JobRank who;
  runtime::HostPort address;  // where this rank listens for the others
};
struct HelloMessage {
  JobRank who;
  std::uint32_t channel = 0;  // which connection of the pair this is
};
using TableMessage = std::vector<runtime::HostPort>;  // by rank

Bytes encode(const JoinMessage& message);
Bytes encode(const HelloMessage& message);
Bytes encode(const TableMessage& message);
Bytes encode_refusal(const Status& why);
// What the context of a refusal's Status says: it was the peer who said no.
inline constexpr const char* kRefusedReason = "refused by the peer";
// Nonsense is kCorrupt. A parsed address has a host and a port.
Result<JoinMessage> parse_join(ByteView bytes);
Result<HelloMessage> parse_hello(ByteView bytes);
Result<TableMessage> parse_table(ByteView bytes);
Status parse_refusal(ByteView bytes);  // the failure that the peer told

// One frame of that type. A refusal of the peer comes as the failure it tells.
runtime::Task<Result<Bytes>> read_setup(runtime::Stream& stream, FrameType type, TimeNs deadline);
runtime::Task<Status> write_setup(runtime::Stream& stream, FrameType type, Bytes payload, TimeNs deadline);

}  // namespace trireme::net
