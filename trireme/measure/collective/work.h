// What the driver asks of every rank of a side, and how it is said: one line of text over a local stream.
//
//   rank -> driver   "hello RANK\n"; then, once a segment for the start line came, "ready\n" or "error
//   TEXT\n" driver -> rank   "measure KIND ELEMS in|out ALGORITHM|- CROWDED WARMUP CALLS\n" rank -> driver
//   "times NS NS ...\n" (one per call, of this rank) or "error TEXT\n" driver -> rank   "quit\n"
//
// Peers of other systems (bench/peers/) speak the same lines, in the frames of a local stream
// (runtime/real/net/unix_stream.h).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "trireme/collective/schedule.h"
#include "trireme/runtime/network.h"

namespace trireme::measure {

struct Work {
  collective::Kind kind = collective::Kind::kAllreduce;
  // f32 values of the whole operation: of the vector, or of all blocks together; a multiple of the world
  // where there are blocks.
  std::int64_t elems = 0;
  bool in_place = true;
  std::string algorithm;  // empty: the side's own choice
  bool crowded = false;   // more ranks than cores: nobody spins at the start line
  int warmup = 1;         // calls before those that are timed
  int calls = 1;

  // True when buffers and programs of `other` serve this too.
  bool same_setup(const Work& other) const {
    return kind == other.kind && elems == other.elems && in_place == other.in_place &&
           algorithm == other.algorithm;
  }
};

// "allreduce", "reduce_scatter" or "reduce-scatter"... Not neighbours: it has no size of its own.
Result<collective::Kind> parse_kind(std::string_view text);
std::vector<std::string> kind_names();

// Kinds whose data is cut in one block per rank.
bool has_blocks(collective::Kind kind);

std::string to_line(const Work& work);
Result<Work> work_from_line(std::string_view line);

std::string to_cross_line(int count);
// Empty when it is not such a line.
std::optional<int> cross_from_line(std::string_view line);

std::string times_line(const std::vector<TimeNs>& times);
// The times of a rank, or the failure it reports.
Result<std::vector<TimeNs>> times_from_line(std::string_view line);

// Reads lines from a stream. One reader at a time.
class LineReader {
 public:
  explicit LineReader(runtime::Stream& stream) : stream_(stream) {}
  // Without the newline. kPeerLost when the stream ended.
  runtime::Task<Result<std::string>> next(TimeNs deadline);

 private:
  runtime::Stream& stream_;
  std::string pending_;
};
runtime::Task<Status> write_line(runtime::Stream& stream, std::string line, TimeNs deadline);

}  // namespace trireme::measure
