// ProgramBuilder: writes a RankProgram step by step and finds the dependencies itself.
//
// Steps name places: a chunk of the result, a chunk of a partial, a stretch of scratch. The builder remembers
// for every place who wrote it last and who read it since, and makes a step depend on what it must not
// overtake (read after write, write after read, write after write). Chunk c of partial 1 and chunk c of the
// result count as one place, because they may be the same memory.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <vector>

#include "trireme/collective/schedule.h"

namespace trireme::collective {

// `count` elements cut in `num_chunks` consecutive chunks whose sizes differ by at most one, larger ones
// first.
struct Chunking {
  std::int64_t count = 0;
  int num_chunks = 1;

  std::int64_t offset(int chunk) const {
    const std::int64_t extra = count % num_chunks;
    return chunk * (count / num_chunks) + (chunk < extra ? chunk : extra);
  }
  std::int64_t size(int chunk) const { return count / num_chunks + (chunk < count % num_chunks ? 1 : 0); }
  std::int64_t max_size() const { return size(0); }
};

class ProgramBuilder {
 public:
  struct Place {
    Region region;
    std::int64_t count = 0;
    std::uint32_t cell = 0;
  };

  ProgramBuilder(const ScheduleSpec& spec, int rank, int num_chunks, int num_partials = 0);
  // How many steps to make room for.
  void reserve(std::size_t num_steps);

  const Chunking& chunks() const { return chunks_; }
  Place chunk(int c) const { return place(0, c); }
  Place partial(int p, int c) const { return place(1 + p, c); }
  Place scratch(std::int64_t elems);

  void send(int peer, std::uint32_t part, const Place& src);
  void recv(int peer, std::uint32_t part, const Place& dst);
  // dst = dst + message, or message + dst when `message_is_left`.
  void recv_reduce(int peer, std::uint32_t part, const Place& via, const Place& dst, bool message_is_left);
  void reduce(const Place& dst, const Place& src);  // dst = dst + src
  void copy(const Place& dst, const Place& src);

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
};

}  // namespace trireme::collective
