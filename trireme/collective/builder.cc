#include "trireme/collective/builder.h"

#include <limits>
#include <utility>

namespace trireme::collective {

// Cells: result chunks first, then the chunks of partials 2.. (partial 1 shares the result's), then scratch.
ProgramBuilder::ProgramBuilder(int rank, Chunking chunks, int num_partials) : chunks_(std::move(chunks)) {
  program_.rank = rank;
  program_.num_partials = num_partials;
  cells_.resize(static_cast<std::size_t>(chunks_.num_chunks) *
                static_cast<std::size_t>(num_partials > 1 ? num_partials : 1));
}

void ProgramBuilder::reserve(std::size_t num_steps) {
  program_.steps.reserve(num_steps);
  program_.deps.reserve(num_steps * 2);
}

ProgramBuilder::Place ProgramBuilder::place(int buffer, int c) const {
  Place p;
  p.region.buffer = buffer;
  p.region.offset = chunks_.offset(c);
  p.count = chunks_.size(c);
  p.cell = static_cast<std::uint32_t>((buffer > 0 ? buffer - 1 : 0) * chunks_.num_chunks + c);
  return p;
}

ProgramBuilder::Place ProgramBuilder::range(int first, int num) const {
  Place p = place(0, first);
  p.count = chunks_.size(first, num);
  p.num_cells = static_cast<std::uint32_t>(num);
  return p;
}

ProgramBuilder::Place ProgramBuilder::stretch(int buffer, std::int64_t offset, std::int64_t elems) {
  Place p;
  p.region.buffer = buffer;
  p.region.offset = offset;
  p.count = elems;
  p.cell = static_cast<std::uint32_t>(cells_.size());
  cells_.emplace_back();
  return p;
}

ProgramBuilder::Place ProgramBuilder::scratch(std::int64_t elems) {
  const Place p = stretch(1 + program_.num_partials, scratch_elems_, elems);
  scratch_elems_ += elems;
  return p;
}

Step& ProgramBuilder::begin(StepKind kind, int peer, std::uint32_t part, std::int64_t count) {
  Step& s = program_.steps.emplace_back();
  s.kind = kind;
  s.peer = peer;
  s.part = part;
  s.count = count;
  s.first_dep = static_cast<std::uint32_t>(program_.deps.size());
  return s;
}

void ProgramBuilder::depend(std::uint32_t step) {
  if (step == kNone || step == this_step()) return;
  Step& s = program_.steps.back();
  for (std::size_t i = s.first_dep; i < program_.deps.size(); ++i)
    if (program_.deps[i] == step) return;
  TR_CHECK(s.num_deps < std::numeric_limits<std::uint16_t>::max());
  program_.deps.push_back(step);
  ++s.num_deps;
}

void ProgramBuilder::reads(const Place& p) {
  for (std::uint32_t i = 0; i < p.num_cells; ++i) {
    Cell& cell = cells_[p.cell + i];
    depend(cell.last_write);
    std::uint32_t node = free_readers_;
    if (node != kNone) {
      free_readers_ = readers_[node].next;
    } else {
      node = static_cast<std::uint32_t>(readers_.size());
      readers_.emplace_back();
    }
    readers_[node] = {this_step(), cell.readers};
    cell.readers = node;
  }
}

void ProgramBuilder::writes(const Place& p) {
  for (std::uint32_t i = 0; i < p.num_cells; ++i) {
    Cell& cell = cells_[p.cell + i];
    depend(cell.last_write);
    while (cell.readers != kNone) {
      const std::uint32_t node = cell.readers;
      depend(readers_[node].step);
      cell.readers = readers_[node].next;
      readers_[node].next = free_readers_;
      free_readers_ = node;
    }
    cell.last_write = this_step();
  }
}

void ProgramBuilder::send(int peer, std::uint32_t part, const Place& src) {
  if (src.count == 0) return;
  begin(StepKind::kSend, peer, part, src.count).src = src.region;
  reads(src);
}

void ProgramBuilder::send_in_turn(int peer, std::uint32_t part, const Place& src) {
  if (src.count == 0) return;
  send(peer, part, src);
  depend(std::exchange(last_in_turn_, this_step()));
}

void ProgramBuilder::recv(int peer, std::uint32_t part, const Place& dst) {
  if (dst.count == 0) return;
  begin(StepKind::kRecv, peer, part, dst.count).dst = dst.region;
  writes(dst);
}

void ProgramBuilder::recv_reduce(int peer, std::uint32_t part, const Place& via, const Place& dst,
                                 bool message_is_left) {
  if (dst.count == 0) return;
  Step& s = begin(message_is_left ? StepKind::kRecvReduceLeft : StepKind::kRecvReduce, peer, part, dst.count);
  s.src = via.region;
  s.dst = dst.region;
  writes(via);
  writes(dst);
}

void ProgramBuilder::combine(StepKind kind, const Place& dst, const Place& src) {
  if (dst.count == 0) return;
  Step& s = begin(kind, -1, 0, dst.count);
  s.src = src.region;
  s.dst = dst.region;
  reads(src);
  writes(dst);
}

void ProgramBuilder::reduce(const Place& dst, const Place& src) { combine(StepKind::kReduce, dst, src); }
void ProgramBuilder::reduce_left(const Place& dst, const Place& src) {
  combine(StepKind::kReduceLeft, dst, src);
}
void ProgramBuilder::copy(const Place& dst, const Place& src) { combine(StepKind::kCopy, dst, src); }

void ProgramBuilder::swap_sum(int peer, std::uint32_t part, const Place& mine, const Place& via,
                              bool message_is_left) {
  Place message = via;
  message.count = mine.count;
  send(peer, part, mine);
  recv(peer, part, message);
  combine(message_is_left ? StepKind::kReduceLeft : StepKind::kReduce, mine, message);
}

void ProgramBuilder::notify(int peer, std::uint32_t part, const Place& have, const Place& finished) {
  begin(StepKind::kSend, peer, part, 0);
  reads(have);
  writes(finished);
}

void ProgramBuilder::hear(int peer, std::uint32_t part, const Place& then) {
  begin(StepKind::kRecv, peer, part, 0);
  writes(then);
}

void ProgramBuilder::read(StepKind kind, int peer, const Place& dst, const Place& src, const Place& token) {
  if (dst.count == 0) return;
  Step& s = begin(kind, peer, 0, dst.count);
  s.src = src.region;
  s.dst = dst.region;
  reads(token);
  writes(dst);
}
void ProgramBuilder::read_peer(int peer, const Place& dst, const Place& src, const Place& token) {
  read(StepKind::kReadPeer, peer, dst, src, token);
}
void ProgramBuilder::read_reduce(int peer, const Place& dst, const Place& src, const Place& token) {
  read(StepKind::kReadReduce, peer, dst, src, token);
}

void ProgramBuilder::exchange_reduce(int to, int out, int from, int in) {
  const std::uint32_t part = round_++, turn = part % 2;
  while (window_.size() <= turn) window_.push_back(scratch(chunks_.max_size()));
  if (chunks_.size(out) > 0) send(to, part, chunk(out));
  if (chunks_.size(in) == 0) return;
  recv_reduce(from, part, window_[turn], chunk(in), /*message_is_left=*/true);
  depend(std::exchange(window_recv_[turn], this_step()));
}

void ProgramBuilder::exchange_copy(int to, int out, int from, int in) {
  const std::uint32_t part = round_++, turn = part % 2;
  if (chunks_.size(out) > 0) send(to, part, chunk(out));
  if (chunks_.size(in) == 0) return;
  recv(from, part, chunk(in));
  depend(std::exchange(window_recv_[turn], this_step()));
}

void ProgramBuilder::signal(int to, int from, std::uint32_t part) {
  begin(StepKind::kSend, to, part, 0);
  depend(last_signal_);
  begin(StepKind::kRecv, from, part, 0);
  depend(std::exchange(last_signal_, this_step()));
}

Result<RankProgram> ProgramBuilder::build() {
  if (scratch_elems_ > 0) program_.scratch_elems.push_back(scratch_elems_);
  return std::move(program_);
}

}  // namespace trireme::collective
