// HeldState: what this rank holds of a job's state: who holds what, and where the pieces of this rank lie.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "trireme/base/bytes.h"
#include "trireme/comm/sum/gradient_sum.h"
#include "trireme/io/safetensors.h"
#include "trireme/parallel/holdings.h"

namespace trireme::engine {

// Memory that is the first replica's and every other one's.
using IsShared = std::function<bool(const Tensor&)>;

struct HeldTensor {
  // Per piece of parallel::pieces_held its elements in row-major order: of the shape of its box, or a vector
  // where it is a range of the box. A block of a tensor that is cut in blocks is a view of the rank's tensor,
  // which need not be contiguous.
  std::vector<Tensor> pieces;
  // Ranks that hold the same pieces see one memory, which those of the first replica fill. The same on every
  // rank.
  bool is_shared = false;
};

struct HeldState {
  parallel::Holdings all;
  int rank = 0;
  std::vector<HeldTensor> own;  // per tensor of `all`

  std::size_t size() const { return own.size(); }
  const parallel::StateTensor& tensor(std::size_t i) const { return all.tensors[i]; }
  std::vector<parallel::Piece> pieces(std::size_t i) const { return pieces_held(all, i, rank); }
  // Whether this rank has all of it, in one piece.
  bool has_whole(std::size_t i) const;
};

// A tensor that the ranks of a mesh hold by a layout: `memory` is all of this rank's pieces, joined.
struct LaidOutTensor {
  std::string name;
  TensorType whole;
  parallel::Layout layout;
  Tensor memory;
  // As StateTensor::ranges; the memory is a vector of this rank's elements then.
  std::vector<parallel::Interval> ranges = {};
};
// kInvalid: a layout does not fit, or the memory is of another shape than what the rank holds.
Result<HeldState> hold_laid_out(const std::vector<LaidOutTensor>& tensors, const parallel::Mesh& mesh,
                                int rank, const IsShared& is_shared = {});
// Replicas of whole tensors on every one of `world` ranks.
HeldState hold_whole(const io::NamedTensors& tensors, int world, int rank, const IsShared& is_shared = {});
// State of logical shards, [shards of this rank, elements] each: "shard/<name>", whose rows the owners hold.
// Along the model axis every tile has as many columns of its own. Along the stage axis every stage has state
// of its own, which all ranks then know of: `of_stages`.
struct RowsOfStage {
  std::string name;
  DType dtype = DType::kF32;
  std::int64_t columns = 0;
  int stage = 0;
};
HeldState hold_rows(const comm::NamedState& own, const std::vector<collective::LeafRun>& owners,
                    const parallel::Mesh& mesh, int rank, const std::vector<RowsOfStage>& of_stages = {});
// Whole tensors that rank `owners[i]` alone holds: `types` of all ranks, `memory` of this one, in that order.
struct OwnedTensor {
  std::string name;
  TensorType type;
  int owner = 0;
  Tensor memory = {};  // null on other ranks
};
HeldState hold_alone(std::vector<OwnedTensor> tensors, int world, int rank);
// Both, one after the other. They are of one mesh.
HeldState join(HeldState first, const HeldState& second);

// kInvalid: the memory does not fit the pieces.
Status check_held(const HeldState& holding);

// fn(bytes in memory, their elements' place in `elems`, how many) for each run of elements that lie together.
using RunFn = std::function<void(std::byte* bytes, std::int64_t at, std::int64_t count)>;
void for_runs(const Tensor& memory, parallel::Interval elems, const RunFn& fn);
// The elements [begin, end) of a piece's memory, in row-major order, from it and into it.
void copy_out(const Tensor& memory, parallel::Interval elems, std::byte* to);
void copy_in(const Tensor& memory, parallel::Interval elems, const std::byte* from);
// The same elements as a vector that lies in the memory; null where they do not lie together.
Tensor view_of(const Tensor& memory, parallel::Interval elems);

}  // namespace trireme::engine
