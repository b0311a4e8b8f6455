// DistArray: a named tensor that the ranks of a group hold by a layout over a mesh. It can be had in another
// layout, and ranks read and write boxes of it by their place in the whole, whoever holds them: the view that
// the distributed arrays of COTS-HPC give (Coates et al. 2013, section 4). A rank that computes rows
// [8, 16) of a convolution reads [6, 18), computes, and writes what it has made.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "trireme/comm/group.h"
#include "trireme/engine/state/move_pieces.h"
#include "trireme/parallel/piece.h"

namespace trireme::engine {

struct DistArraySpec {
  std::string name;  // for errors
  TensorType whole;
  parallel::Mesh mesh;      // of as many ranks as the group
  parallel::Layout layout;  // nothing of it is partial
  // The group's slot for all its calls; another one for every array of a group.
  std::uint16_t slot = 0;
  std::int64_t chunk_bytes = StreamCall::kChunkBytes;  // a rank keeps two chunks while elements move
};

// On the loop of one Runtime. Calls that return tasks are collective: all ranks make them in the same order
// and one at a time, each for itself. What is wrong with one rank's call is kInvalid on all, in the same
// words, and nothing has moved; a failure of the group is its verdict.
class DistArray {
 public:
  // Zeros. No message is sent. Runtime and group outlive the array. kInvalid: the mesh is of other ranks, or
  // the layout does not fit.
  static Result<DistArray> make(runtime::Runtime& rt, comm::Group& group, DistArraySpec spec);

  const std::string& name() const { return spec_.name; }
  const TensorType& whole() const { return spec_.whole; }
  const parallel::Mesh& mesh() const { return spec_.mesh; }
  const parallel::Layout& layout() const { return spec_.layout; }
  // What this rank holds, and its memory: pieces joined along the dimension that is cut in blocks; a vector
  // where a piece is a range of its box; without elements where the rank holds none. Where several ranks hold
  // an element, whoever writes it here writes it on all of them.
  std::vector<parallel::Piece> pieces() const;
  const Tensor& local() const { return local_; }

  // The elements of a box, in memory of their own; null where this rank wants nothing. Boxes of ranks may
  // overlap.
  runtime::Task<Result<Tensor>> read(std::optional<parallel::Box> box);
  // The elements of a box, on all ranks that hold them; without a box this rank writes nothing. Boxes of
  // ranks have nothing in common.
  runtime::Task<Status> write(std::optional<parallel::Box> box, Tensor values);
  // The same elements in another layout, which all ranks ask for. The old memory stays with those who have
  // taken it.
  runtime::Task<Status> to_layout(parallel::Layout layout);

 private:
  DistArray(runtime::Runtime& rt, comm::Group& group, DistArraySpec spec)
      : rt_(&rt), group_(&group), spec_(std::move(spec)) {}

  struct Asked;  // what a rank asks for
  runtime::Task<Result<std::vector<Asked>>> tell_all(Asked own);
  Status check_all(const std::vector<Asked>& all) const;
  runtime::Task<Result<std::vector<Asked>>> agree(std::optional<parallel::Box> box, const Tensor* values);
  Result<Tensor> allocate(const TensorType& type) const;
  // Memory for a layout, and for all ranks what they hold.
  Result<Tensor> memory_for(const parallel::Layout& layout) const;
  Result<PiecesByRank> held(const parallel::Layout& layout, const Tensor& memory) const;
  PiecesByRank boxes_of(const std::vector<Asked>& all, const Tensor& own) const;
  StreamCall next_call(const char* what);

  runtime::Runtime* rt_;
  comm::Group* group_;
  DistArraySpec spec_;
  Tensor local_;
  std::uint32_t calls_ = 0;  // made on all ranks alike
};

}  // namespace trireme::engine
