// Seats: several ranks of a job in one process, over one transport between the processes.
//
// A job has a fixed number of ranks, so that its result does not depend on how many processes run them: each
// process has seats for some of them. What two ranks of one process send each other is copied in memory; all
// else goes over the process's transport, where the seats of sender and receiver are part of the message's
// group. A process that ends, ends all its ranks. Seats have no memory in common with other processes, and do
// not survive losses.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "trireme/net/transport.h"

namespace trireme::net {

inline constexpr int kMostSeats = 32;  // of a process

class SeatHub;

class Seats {
 public:
  // `processes`: by rank of the job, the rank of its process in `transport`. kInvalid: a process has no seat,
  // or more than kMostSeats. On the loop of `rt`, which outlives all seats.
  static Result<std::unique_ptr<Seats>> make(runtime::Runtime& rt, std::unique_ptr<Transport> transport,
                                             std::vector<int> processes, std::uint32_t epoch);

  // The ranks that this process has seats for, ascending.
  const std::vector<int>& own() const { return own_; }
  // The transport of one of them, each once. The process's transport goes with the last of them.
  std::unique_ptr<Transport> take(int rank);

 private:
  explicit Seats(std::shared_ptr<SeatHub> hub);

  const std::shared_ptr<SeatHub> hub_;
  const std::vector<int> own_;
};

}  // namespace trireme::net
