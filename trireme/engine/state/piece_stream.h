// PieceStream: elements of the state on their way between ranks, a bounded chunk at a time. Whatever needs a
// tensor that no rank has as a whole (a hash, a file, another layout) takes it from here, window by window.
#pragma once

#include <functional>
#include <string>

#include "trireme/comm/group.h"
#include "trireme/engine/state/held_state.h"

namespace trireme::engine {

// Messages of a stream: those of one pair of ranks are numbered by `iteration`.
struct StreamCall {
  static constexpr std::int64_t kChunkBytes = std::int64_t{4} << 20;
  StreamCall(std::uint16_t the_slot, std::int64_t the_step, std::string the_label,
             std::int64_t most_bytes = kChunkBytes)
      : slot(the_slot),
        step(static_cast<std::uint32_t>(the_step)),
        label(std::move(the_label)),
        chunk_bytes(most_bytes) {}

  std::uint16_t slot;
  std::uint32_t step;
  std::string label;
  std::int64_t chunk_bytes;  // at most so many at once
};

// On the loop of one Runtime. All ranks of the group make the same calls in the same order; a rank that has
// nothing to give or to get in a call returns from it at once.
class PieceStream {
 public:
  // Gets elements [begin, end) of the piece that was asked for, as a vector.
  using Sink = std::function<runtime::Task<Status>(parallel::Interval elems, Tensor chunk)>;

  // Both outlive it.
  PieceStream(runtime::Runtime& rt, comm::Group& group, StreamCall call)
      : rt_(rt), group_(group), call_(std::move(call)) {}

  // A piece of tensor `tensor` of `from` to rank `to`, in the order of its elements. The rank takes what it
  // holds itself from its own memory and all else from the first holders. `sink` is called on that rank. On a
  // phantom Runtime sizes travel, and nothing reaches the sink.
  runtime::Task<Status> bring(const HeldState& from, std::size_t tensor, parallel::Piece piece, int to,
                              Sink sink);

  // The most bytes that this rank has kept at one time, memory of the HeldState not counted.
  std::int64_t most_bytes() const { return most_bytes_; }

 private:
  struct Gift;  // what one rank gives of a window
  // A rank of the holders of a tensor that gives it to others, and its pieces.
  struct Giver {
    int rank = 0;
    std::vector<parallel::Piece> pieces;
  };
  std::vector<Giver> givers(const HeldState& from, std::size_t tensor) const;
  std::vector<Gift> own_gifts(const HeldState& from, std::size_t tensor, const parallel::Piece& window) const;
  comm::Call next_call() const;
  Result<Tensor> buffer(DType dtype, std::int64_t elems);
  runtime::Task<Status> give(const HeldState& from, std::size_t tensor, parallel::Piece window, int to);
  runtime::Task<Status> take(const HeldState& from, std::size_t tensor, parallel::Piece window,
                             const std::vector<Giver>& givers, Tensor into);
  runtime::Task<Status> take_from(int rank, std::vector<Gift> parts, Tensor into);

  runtime::Runtime& rt_;
  comm::Group& group_;
  const StreamCall call_;
  std::uint16_t iteration_ = 0;
  std::int64_t most_bytes_ = 0, now_bytes_ = 0;
};

// Pieces of at most `bytes` that lie one after the other in `piece`, for those who read it part by part.
std::vector<parallel::Interval> chunks_of(const parallel::Piece& piece, std::int64_t bytes);

}  // namespace trireme::engine
