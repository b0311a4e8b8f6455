#include "trireme/engine/state/piece_stream.h"

#include <algorithm>
#include <cstring>

namespace trireme::engine {
namespace {

using parallel::Interval;
using parallel::Piece;
using runtime::Task;

// The same elements in a box of the rows that they lie in, so that nobody walks over all others.
Piece narrowed(Piece piece) {
  if (piece.box.empty() || piece.elems() == 0) return piece;
  const std::int64_t row = num_elems(piece.box) / piece.box[0].size();
  const Interval rows{piece.range.begin / row, (piece.range.end + row - 1) / row};
  piece.box[0] = {piece.box[0].begin + rows.begin, piece.box[0].begin + rows.end};
  piece.range = {piece.range.begin - rows.begin * row, piece.range.end - rows.begin * row};
  return piece;
}

std::int64_t count(const std::vector<parallel::SharedRun>& runs) {
  std::int64_t n = 0;
  for (const parallel::SharedRun& run : runs) n += run.count;
  return n;
}

// The first of the ranks that hold what this one does.
int first_of(const HeldState& from, std::size_t tensor, int rank) {
  return holders(from.all, tensor, rank)[0];
}

std::byte* at(const Tensor& t, std::int64_t elem) {
  return t.raw() + static_cast<std::size_t>(elem) * dtype_size(t.dtype());
}

}  // namespace

std::vector<Interval> chunks_of(const Piece& piece, std::int64_t bytes) {
  const auto size = static_cast<std::int64_t>(dtype_size(piece.whole.dtype));
  const std::int64_t step = std::max<std::int64_t>(1, bytes / size);
  std::vector<Interval> out;
  for (std::int64_t i = 0; i < piece.elems(); i += step)
    out.push_back({i, std::min(i + step, piece.elems())});
  return out;
}

struct PieceStream::Gift {
  Tensor memory;  // of the rank's piece; null where another rank asks
  std::vector<parallel::SharedRun> runs;
};

std::vector<PieceStream::Gift> PieceStream::own_gifts(const HeldState& from, std::size_t tensor,
                                                      const Piece& window) const {
  std::vector<Gift> out;
  const std::vector<Piece> pieces = from.pieces(tensor);
  for (std::size_t p = 0; p < pieces.size(); ++p) {
    Gift gift{from.own[tensor].pieces[p], shared_runs(pieces[p], window)};
    if (!gift.runs.empty()) out.push_back(std::move(gift));
  }
  return out;
}

// Those that do not hold what this rank does.
std::vector<PieceStream::Giver> PieceStream::givers(const HeldState& from, std::size_t tensor) const {
  const int own = first_of(from, tensor, group_.rank());
  const bool holds = !from.own[tensor].pieces.empty();
  std::vector<Giver> out;
  for (parallel::FirstHeld& held : distinct_pieces(from.all, tensor)) {
    if (holds && held.rank == own) continue;
    if (out.empty() || out.back().rank != held.rank) out.push_back({held.rank, {}});
    out.back().pieces.push_back(std::move(held.piece));
  }
  return out;
}

comm::Call PieceStream::next_call() const {
  comm::Call call;
  call.slot = call_.slot;
  call.step = call_.step;
  call.iteration = iteration_;
  call.label = call_.label;
  return call;
}

Result<Tensor> PieceStream::buffer(DType dtype, std::int64_t elems) {
  const TensorType type{dtype, {elems}};
  now_bytes_ += static_cast<std::int64_t>(type.num_bytes());
  most_bytes_ = std::max(most_bytes_, now_bytes_);
  return Tensor::allocate(rt_.is_phantom() ? phantom_device() : cpu_device(), type);
}

Task<Status> PieceStream::give(const HeldState& from, std::size_t tensor, Piece window, int to) {
  const int own = group_.rank();
  if (first_of(from, tensor, own) != own) co_return Status();
  const bool has_it = first_of(from, tensor, to) == own && !pieces_held(from.all, tensor, to).empty();
  if (has_it) co_return Status();
  const std::vector<Gift> parts = own_gifts(from, tensor, window);
  if (parts.empty()) co_return Status();
  if (parts.size() == 1 && parts[0].runs.size() == 1) {
    const parallel::SharedRun& run = parts[0].runs[0];
    const Tensor view = view_of(parts[0].memory, {run.first, run.first + run.count});
    if (!view.is_null()) co_return co_await group_.send(next_call(), to, view);
  }
  std::int64_t elems = 0;
  for (const Gift& gift : parts) elems += count(gift.runs);
  TR_CO_ASSIGN_OR_RETURN(const Tensor packed, buffer(window.whole.dtype, elems));
  std::int64_t next = 0;
  for (const Gift& gift : parts)
    for (const parallel::SharedRun& run : gift.runs) {
      if (!rt_.is_phantom()) copy_out(gift.memory, {run.first, run.first + run.count}, at(packed, next));
      next += run.count;
    }
  co_return co_await group_.send(next_call(), to, packed);
}

Task<Status> PieceStream::take_from(int rank, std::vector<Gift> parts, Tensor into) {
  if (parts.size() == 1 && parts[0].runs.size() == 1) {
    const parallel::SharedRun& run = parts[0].runs[0];
    co_return co_await group_.recv(next_call(), rank, view_of(into, {run.second, run.second + run.count}));
  }
  std::int64_t elems = 0;
  for (const Gift& gift : parts) elems += count(gift.runs);
  const std::int64_t before = now_bytes_;
  TR_CO_ASSIGN_OR_RETURN(const Tensor packed, buffer(into.dtype(), elems));
  TR_CO_RETURN_IF_ERROR(co_await group_.recv(next_call(), rank, packed));
  std::int64_t next = 0;
  for (const Gift& gift : parts)
    for (const parallel::SharedRun& run : gift.runs) {
      const Interval place{run.second, run.second + run.count};
      if (!rt_.is_phantom()) copy_in(into, place, at(packed, next));
      next += run.count;
    }
  now_bytes_ = before;
  co_return Status();
}

Task<Status> PieceStream::take(const HeldState& from, std::size_t tensor, Piece window,
                               const std::vector<Giver>& givers, Tensor into) {
  std::int64_t missing = window.elems();
  for (const Gift& gift : own_gifts(from, tensor, window))
    for (const parallel::SharedRun& run : gift.runs) {
      if (!rt_.is_phantom()) copy_out(gift.memory, {run.first, run.first + run.count}, at(into, run.second));
      missing -= run.count;
    }
  for (const Giver& giver : givers) {
    std::vector<Gift> parts;
    for (const Piece& piece : giver.pieces) {
      Gift gift{Tensor(), shared_runs(piece, window)};
      missing -= count(gift.runs);
      if (!gift.runs.empty()) parts.push_back(std::move(gift));
    }
    if (!parts.empty()) TR_CO_RETURN_IF_ERROR(co_await take_from(giver.rank, std::move(parts), into));
  }
  if (missing == 0) co_return Status();
  co_return error(Code::kInternal, "[state] nobody holds {} elements of {}", missing, window.to_text());
}

Task<Status> PieceStream::bring(const HeldState& from, std::size_t tensor, Piece piece, int to, Sink sink) {
  std::vector<Giver> others;
  if (group_.rank() == to) others = givers(from, tensor);
  for (const Interval part : chunks_of(piece, call_.chunk_bytes)) {
    const Piece window = narrowed(part_of(piece, part));
    ++iteration_;
    now_bytes_ = 0;
    if (group_.rank() != to) {
      TR_CO_RETURN_IF_ERROR(co_await give(from, tensor, window, to));
      continue;
    }
    TR_CO_ASSIGN_OR_RETURN(const Tensor chunk, buffer(piece.whole.dtype, part.size()));
    TR_CO_RETURN_IF_ERROR(co_await take(from, tensor, window, others, chunk));
    if (rt_.is_phantom()) continue;
    TR_CO_RETURN_IF_ERROR(co_await sink(part, chunk));
  }
  co_return Status();
}

}  // namespace trireme::engine
