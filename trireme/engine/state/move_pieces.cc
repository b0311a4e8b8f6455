#include "trireme/engine/state/move_pieces.h"

#include <algorithm>

#include "trireme/runtime/sync.h"

namespace trireme::engine {
namespace {

using parallel::Piece;
using parallel::SharedRun;
using runtime::Task;

// What of one piece goes into another.
struct Share {
  std::size_t from = 0, to = 0;  // pieces of the giver and of the taker
  std::vector<SharedRun> runs;
};

// Walks over the elements of shares in windows.
class ShareCursor {
 public:
  explicit ShareCursor(std::vector<Share> shares) : shares_(std::move(shares)) {
    for (const Share& share : shares_)
      for (const SharedRun& run : share.runs) left_ += run.count;
  }
  std::int64_t left() const { return left_; }
  // fn(share, part of a run) for the next `count` elements.
  template <typename Fn>
  void take(std::int64_t count, const Fn& fn) {
    left_ -= count;
    while (count > 0) {
      const Share& share = shares_[share_];
      const SharedRun& run = share.runs[run_];
      const std::int64_t n = std::min(count, run.count - done_);
      fn(share, SharedRun{run.first + done_, run.second + done_, n});
      count -= n;
      done_ += n;
      if (done_ < run.count) continue;
      done_ = 0;
      if (++run_ < share.runs.size()) continue;
      run_ = 0;
      ++share_;
    }
  }

 private:
  std::vector<Share> shares_;
  std::size_t share_ = 0, run_ = 0;
  std::int64_t done_ = 0, left_ = 0;  // of the run; of all
};

class Mover {
 public:
  Mover(runtime::Runtime& rt, comm::Group& group, StreamCall call, PiecesByRank from, PiecesByRank to)
      : rt_(rt), group_(group), call_(std::move(call)), from_(std::move(from)), to_(std::move(to)) {}

  Task<Status> run() {
    TR_CO_RETURN_IF_ERROR(copy_own());
    const int world = group_.world(), me = group_.rank();
    for (int apart = 1; apart < world; ++apart) {
      std::vector<Task<Status>> both;
      both.push_back(give((me + apart) % world));
      both.push_back(take((me - apart + world) % world));
      TR_CO_RETURN_IF_ERROR(co_await runtime::when_all(rt_, std::move(both)));
    }
    co_return Status();
  }

 private:
  static bool has(const std::vector<Piece>& pieces, const Piece& piece) {
    return std::find(pieces.begin(), pieces.end(), piece) != pieces.end();
  }
  const std::vector<Piece>& had_by(int rank) const { return from_.ranks[static_cast<std::size_t>(rank)]; }

  bool gives(int giver, const Piece& piece, int taker) const {
    if (giver == taker) return true;
    if (has(had_by(taker), piece)) return false;
    for (int rank = 0; rank < giver; ++rank)
      if (has(had_by(rank), piece)) return false;
    return true;
  }

  ShareCursor shares(int giver, int taker) const {
    const std::vector<Piece>&given = had_by(giver), &wanted = to_.ranks[static_cast<std::size_t>(taker)];
    std::vector<Share> out;
    for (std::size_t f = 0; f < given.size() && !wanted.empty(); ++f) {
      if (!gives(giver, given[f], taker)) continue;
      for (std::size_t t = 0; t < wanted.size(); ++t)
        if (std::vector<SharedRun> runs = shared_runs(given[f], wanted[t]); !runs.empty())
          out.push_back({f, t, std::move(runs)});
    }
    return ShareCursor(std::move(out));
  }

  std::int64_t window(const ShareCursor& cursor, DType dtype) const {
    const auto size = static_cast<std::int64_t>(dtype_size(dtype));
    return std::min(cursor.left(), std::max<std::int64_t>(1, call_.chunk_bytes / size));
  }
  Result<Tensor> buffer(DType dtype, std::int64_t elems) const {
    return Tensor::allocate(rt_.is_phantom() ? phantom_device() : cpu_device(), {dtype, {elems}});
  }
  void pack(ShareCursor& cursor, const Tensor& chunk) const {
    std::byte* next = rt_.is_phantom() ? nullptr : chunk.raw();
    cursor.take(chunk.shape()[0], [&](const Share& share, const SharedRun& run) {
      if (next == nullptr) return;
      copy_out(from_.own[share.from], {run.first, run.first + run.count}, next);
      next += static_cast<std::size_t>(run.count) * dtype_size(chunk.dtype());
    });
  }
  void unpack(ShareCursor& cursor, const Tensor& chunk) const {
    const std::byte* next = rt_.is_phantom() ? nullptr : chunk.raw();
    cursor.take(chunk.shape()[0], [&](const Share& share, const SharedRun& run) {
      if (next == nullptr) return;
      copy_in(to_.own[share.to], {run.second, run.second + run.count}, next);
      next += static_cast<std::size_t>(run.count) * dtype_size(chunk.dtype());
    });
  }
  comm::Call nth_call(int n) const {
    comm::Call call;
    call.slot = call_.slot;
    call.step = call_.step;
    call.iteration = static_cast<std::uint16_t>(n);
    call.label = call_.label;
    return call;
  }

  Status copy_own() const {
    const int me = group_.rank();
    ShareCursor out = shares(me, me), in = shares(me, me);
    while (out.left() > 0) {
      const DType dtype = from_.own[0].dtype();
      TR_ASSIGN_OR_RETURN(const Tensor chunk, buffer(dtype, window(out, dtype)));
      pack(out, chunk);
      unpack(in, chunk);
    }
    return {};
  }

  Task<Status> give(int taker) {
    ShareCursor cursor = shares(group_.rank(), taker);
    for (int n = 0; cursor.left() > 0; ++n) {
      const DType dtype = from_.own[0].dtype();
      TR_CO_ASSIGN_OR_RETURN(const Tensor chunk, buffer(dtype, window(cursor, dtype)));
      pack(cursor, chunk);
      TR_CO_RETURN_IF_ERROR(co_await group_.send(nth_call(n), taker, chunk));
    }
    co_return Status();
  }

  Task<Status> take(int giver) {
    ShareCursor cursor = shares(giver, group_.rank());
    for (int n = 0; cursor.left() > 0; ++n) {
      const DType dtype = to_.own[0].dtype();
      TR_CO_ASSIGN_OR_RETURN(const Tensor chunk, buffer(dtype, window(cursor, dtype)));
      TR_CO_RETURN_IF_ERROR(co_await group_.recv(nth_call(n), giver, chunk));
      unpack(cursor, chunk);
    }
    co_return Status();
  }

  runtime::Runtime& rt_;
  comm::Group& group_;
  const StreamCall call_;
  const PiecesByRank from_, to_;
};

}  // namespace

Task<Status> move_pieces(runtime::Runtime& rt, comm::Group& group, StreamCall call, PiecesByRank from,
                         PiecesByRank to) {
  Mover mover(rt, group, std::move(call), std::move(from), std::move(to));
  co_return co_await mover.run();
}

}  // namespace trireme::engine
