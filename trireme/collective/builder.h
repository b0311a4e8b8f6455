// ProgramBuilder: writes a RankProgram step by step and finds the dependencies itself.
//
// Steps name places: a chunk of the result, a chunk of a partial, a stretch of scratch. The builder remembers
// for every place who wrote it last and who read it since, and makes a step depend on what it must not
// overtake (read after write, write after read, write after write). Chunk c of partial 1 and chunk c of the
// result count as one place, because they may be the same memory. Steps on places without elements are left
// out, on both sides of a message.
#pragma once

#include <cstdint>
#include <vector>

#include "trireme/collective/chunking.h"
#include "trireme/collective/schedule.h"

namespace trireme::collective {

class ProgramBuilder {
 public:
  struct Place {
    Region region;
    std::int64_t count = 0;
    std::uint32_t cell = 0, num_cells = 1;
  };

  // `spec.count` elements cut evenly.
  ProgramBuilder(const ScheduleSpec& spec, int rank, int num_chunks, int num_partials = 0)
      : ProgramBuilder(rank, Chunking{spec.count, num_chunks}, num_partials) {}
  ProgramBuilder(int rank, Chunking chunks, int num_partials = 0);
  // How many steps to make room for.
  void reserve(std::size_t num_steps);

  const Chunking& chunks() const { return chunks_; }
  Place chunk(int c) const { return place(0, c); }
  Place partial(int p, int c) const { return place(1 + p, c); }
  // Chunks [first, first + num) of the result as one place.
  Place range(int first, int num) const;
  Place whole() const { return range(0, chunks_.num_chunks); }
  // A stretch of a buffer that no other place overlaps.
  Place stretch(int buffer, std::int64_t offset, std::int64_t elems);
  Place scratch(std::int64_t elems);
  // A place without elements, to order steps by.
  Place token() { return stretch(0, 0, 0); }

  void send(int peer, std::uint32_t part, const Place& src);
  void recv(int peer, std::uint32_t part, const Place& dst);
  // dst = dst + message, or message + dst when `message_is_left`.
  void recv_reduce(int peer, std::uint32_t part, const Place& via, const Place& dst, bool message_is_left);
  void reduce(const Place& dst, const Place& src);       // dst = dst + src
  void reduce_left(const Place& dst, const Place& src);  // dst = src + dst
  // Both sides call it: sends `mine`, takes the peer's into `via`, then mine = lower rank's + higher rank's.
  // The recv does not wait for the send.
  void swap_sum(int peer, std::uint32_t part, const Place& mine, const Place& via, bool message_is_left);
  void copy(const Place& dst, const Place& src);

  // Sends only after the last send_in_turn is done: one message at a time.
  void send_in_turn(int peer, std::uint32_t part, const Place& src);
  // The step written last also waits for everything that wrote or read `p`.
  void wait_for(const Place& p) { writes(p); }

  // Peer memory. A message without elements tells the peer that `have` is written and that everything that
  // used `finished` is done...
  void notify(int peer, std::uint32_t part, const Place& have, const Place& finished);
  // ... and what touches `then` afterwards has heard.
  void hear(int peer, std::uint32_t part, const Place& then);
  // dst = the peer's `src` (its region there is the same as this rank's), having heard `token`.
  void read_peer(int peer, const Place& dst, const Place& src, const Place& token);
  void read_reduce(int peer, const Place& dst, const Place& src, const Place& token);

  // One round of an algorithm in which every rank calls the same sequence of exchanges: sends chunk `out` of
  // the result to `to`, takes chunk `in` from `from`. At most two rounds are received ahead. Empty chunks
  // send nothing.
  void exchange_reduce(int to, int out, int from, int in);
  void exchange_copy(int to, int out, int from, int in);

  // A message without elements (barrier): sent after, and received before, everything else in `program
  // order`.
  void signal(int to, int from, std::uint32_t part);

  Result<RankProgram> build();

 private:
  static constexpr std::uint32_t kNone = ~0U;
  struct Reader {
    std::uint32_t step, next;
  };
  struct Cell {
    std::uint32_t last_write = kNone;
    std::uint32_t readers = kNone;  // into readers_
  };

  Place place(int buffer, int c) const;
  void combine(StepKind kind, const Place& dst, const Place& src);
  void read(StepKind kind, int peer, const Place& dst, const Place& src, const Place& token);
  Step& begin(StepKind kind, int peer, std::uint32_t part, std::int64_t count);
  void depend(std::uint32_t step);
  void reads(const Place& p);
  void writes(const Place& p);
  std::uint32_t this_step() const { return static_cast<std::uint32_t>(program_.steps.size() - 1); }

  Chunking chunks_;
  RankProgram program_;
  std::vector<Cell> cells_;
  std::vector<Reader> readers_;
  std::uint32_t free_readers_ = kNone;
  std::int64_t scratch_elems_ = 0;
  std::uint32_t round_ = 0;
  std::vector<Place> window_;                      // scratch of the exchanges, used in turn
  std::uint32_t window_recv_[2] = {kNone, kNone};  // the last two exchanges' recv steps
  std::uint32_t last_signal_ = kNone;
  std::uint32_t last_in_turn_ = kNone;
};

}  // namespace trireme::collective
