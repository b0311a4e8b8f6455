// What a collective promises: who brings what, in which buffer, and who must end with what. The verifier
// proves programs against it, comm checks the caller's tensors by it.
//
// Blocks: `count` elements cut by rank (ScheduleSpec::counts, or evenly).
//   kind            buffer 0 before                      buffer 0 after
//   allreduce       x_r                                  sum
//   reduce          x_r                                  root: sum; others: undefined
//   broadcast       root: x                              x
//   allgather       block r: x_r                         every block q: x_q
//   reduce-scatter  x_r                                  block r: sum; the rest is undefined
//   gather          root: as allgather; others: block r only, at 0    root: every block
//   scatter         root: x; others: nothing             root: x; others: block r of x, at 0
//   all-to-all      nothing; buffer 1: blocks by destination          blocks by source
//   neighbours      empty; buffers 1..: one per edge out, then one per edge in, in the order of the edges
#pragma once

#include <cstdint>
#include <vector>

#include "trireme/collective/chunking.h"
#include "trireme/collective/schedule.h"

namespace trireme::collective {

// The block of each rank: gather, scatter, allgather, reduce-scatter.
Chunking rank_blocks(const ScheduleSpec& spec);

// All-to-all: elements that `from` sends to `to`, and where they are.
std::int64_t pair_count(const ScheduleSpec& spec, int from, int to);
std::int64_t send_offset(const ScheduleSpec& spec, int from, int to);  // in buffer 1 of `from`
std::int64_t recv_offset(const ScheduleSpec& spec, int from, int to);  // in buffer 0 of `to`

// Edges of a rank, in the order of the spec.
std::vector<Edge> edges_out(const ScheduleSpec& spec, int rank);
std::vector<Edge> edges_in(const ScheduleSpec& spec, int rank);

// Buffers of the caller beside buffer 0, when they are no partials.
int caller_buffers(const ScheduleSpec& spec, int rank);
// Elements of buffer 0 or of another buffer of the caller.
std::int64_t caller_elems(const ScheduleSpec& spec, int rank, int buffer);
// Where the result of a reduction lies in buffer 0: empty where there is none.
struct Stretch {
  std::int64_t offset = 0, count = 0;
};
Stretch result_of(const ScheduleSpec& spec, int rank);

// A stretch of a buffer holds elements [element, element + count) of the input of rank `leaf`, or of the sum.
struct Holding {
  static constexpr int kSum = -1;
  int buffer = 0;
  std::int64_t offset = 0, count = 0;
  int leaf = 0;
  std::int64_t element = 0;
};
// One input per rank; partials of the fixed tree are not told here.
std::vector<Holding> brought(const ScheduleSpec& spec, int rank);
std::vector<Holding> promised(const ScheduleSpec& spec, int rank);

}  // namespace trireme::collective
