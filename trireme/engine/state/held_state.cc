#include "trireme/engine/state/held_state.h"

#include <algorithm>
#include <cstring>

#include "trireme/base/check.h"
#include "trireme/io/shards.h"

namespace trireme::engine {

using parallel::Interval;

void for_runs(const Tensor& t, Interval elems, const RunFn& fn) {
  const auto size = static_cast<std::int64_t>(dtype_size(t.dtype()));
  if (elems.size() == 0) return;
  if (t.is_contiguous()) {
    fn(t.raw() + elems.begin * size, std::int64_t{0}, elems.size());
    return;
  }
  int outer = t.shape().rank();
  std::int64_t together = 1;
  for (; outer > 0 && t.strides()[static_cast<std::size_t>(outer - 1)] == together; --outer)
    together *= t.shape()[outer - 1];
  for (std::int64_t i = elems.begin; i < elems.end;) {
    const std::int64_t within = i % together, n = std::min(together - within, elems.end - i);
    std::int64_t row = i / together, at = within;
    for (int d = outer - 1; d >= 0; --d) {
      at += row % t.shape()[d] * t.strides()[static_cast<std::size_t>(d)];
      row /= t.shape()[d];
    }
    fn(t.raw() + at * size, i - elems.begin, n);
    i += n;
  }
}

bool HeldState::has_whole(std::size_t i) const {
  return own[i].pieces.size() == 1 &&
         own[i].pieces[0].shape().num_elems() == tensor(i).whole.shape.num_elems();
}

namespace {

// The memory of each piece of a rank's tensor. Blocks lie one after the other along the one dimension that
// is cut in blocks; a range of elements is the memory itself.
std::vector<Tensor> memory_of(const std::vector<parallel::Piece>& pieces, const Tensor& memory) {
  if (pieces.size() <= 1) return std::vector<Tensor>(pieces.size(), memory);
  int dim = 0;
  while (pieces[0].box[static_cast<std::size_t>(dim)] == pieces[1].box[static_cast<std::size_t>(dim)]) ++dim;
  std::vector<Tensor> out;
  std::int64_t at = 0;
  for (const parallel::Piece& piece : pieces) {
    const std::int64_t size = piece.box[static_cast<std::size_t>(dim)].size();
    out.push_back(memory.slice(dim, at, at + size));
    at += size;
  }
  return out;
}

// The memory is a vector of the elements that a rank has of what replicas divide. A piece with gaps has rows
// as of a matrix.
Result<std::vector<Tensor>> memory_of_range(const HeldState& held, std::size_t tensor, const Tensor& memory) {
  Interval range;
  std::vector<Tensor> out;
  const auto pieces = range_held(held.all, tensor, held.rank, range);
  if (memory.shape() != Shape{range.size()})
    return error(Code::kInvalid, "[state] '{}': a rank has {} elements of it, its memory is {}",
                 held.tensor(tensor).name, range.size(), memory.type().to_string());
  for (const parallel::RangePiece& p : pieces) {
    const std::int64_t at = p.first - range.begin;
    const auto place = [&](const TensorType& type, std::int64_t elem) {
      return Tensor(memory.buffer(), type,
                    memory.offset_bytes() + static_cast<std::size_t>(elem) * dtype_size(memory.dtype()));
    };
    if (p.row_stride == 0) {
      out.push_back(place(io::stored_type(p.piece), at));
      continue;
    }
    // Whole rows: the columns of this piece begin at the same place in each.
    const std::int64_t column = p.first % p.row_stride, rows = p.piece.box[0].size();
    const Tensor all = place({memory.dtype(), {rows, p.row_stride}}, at - column);
    out.push_back(all.slice(1, column, column + p.piece.box[1].size()));
  }
  return out;
}

}  // namespace

Result<HeldState> hold_laid_out(const std::vector<LaidOutTensor>& tensors, const parallel::Mesh& mesh,
                                int rank, const IsShared& is_shared) {
  HeldState out;
  out.all.mesh = mesh;
  out.rank = rank;
  for (const LaidOutTensor& t : tensors) {
    TR_RETURN_IF_ERROR(check_layout(t.layout, mesh, t.whole));
    out.all.tensors.push_back({t.name, t.whole, t.layout});
    out.all.tensors.back().ranges = t.ranges;
    HeldTensor& own = out.own.emplace_back();
    own.is_shared = is_shared && is_shared(t.memory);
    if (t.ranges.empty()) {
      own.pieces = memory_of(out.pieces(out.own.size() - 1), t.memory);
      continue;
    }
    TR_ASSIGN_OR_RETURN(own.pieces, memory_of_range(out, out.own.size() - 1, t.memory));
  }
  TR_RETURN_IF_ERROR(check_held(out));
  return out;
}

HeldState hold_whole(const io::NamedTensors& tensors, int world, int rank, const IsShared& is_shared) {
  HeldState out;
  out.all.mesh = parallel::data_mesh(world);
  out.rank = rank;
  for (const auto& [name, tensor] : tensors) {
    out.all.tensors.push_back({name, tensor.type(), parallel::Layout::replicate(out.all.mesh)});
    out.own.push_back({{tensor}, is_shared && is_shared(tensor)});
  }
  return out;
}

HeldState hold_rows(const comm::NamedState& own, const std::vector<collective::LeafRun>& owners,
                    const parallel::Mesh& mesh, int rank, const std::vector<RowsOfStage>& of_stages) {
  HeldState out;
  out.all.mesh = mesh;
  out.rank = rank;
  std::int64_t rows = 0;
  for (const collective::LeafRun& run : owners) rows += run.count;
  const std::int64_t tiles = mesh.size_of(parallel::kModelAxis);
  std::vector<RowsOfStage> all = of_stages;
  for (const auto& [name, tensor] : own)
    if (of_stages.empty()) all.push_back({name, tensor.dtype(), tensor.shape()[1]});
  for (const RowsOfStage& of : all) {
    parallel::StateTensor& t = out.all.tensors.emplace_back();
    t.name = "shard/" + of.name;
    t.whole = {of.dtype, {rows, tiles * of.columns}};
    t.layout = parallel::Layout::replicate(out.all.mesh);
    for (std::size_t axis = 0; axis < mesh.axes.size(); ++axis) {
      const std::string& along = mesh.axes[axis].name;
      if (along == parallel::kModelAxis && tiles > 1) t.layout.axes[axis] = parallel::AxisLayout::shard(1);
      if (along == parallel::kStageAxis) t.layout.axes[axis] = parallel::AxisLayout::at({of.stage});
    }
    t.rows = owners;
    HeldTensor& held = out.own.emplace_back();
    if (pieces_held(out.all, out.size() - 1, rank).empty()) continue;
    const auto memory =
        std::find_if(own.begin(), own.end(), [&](const auto& named) { return named.first == of.name; });
    TR_CHECK(memory != own.end(), "'{}' is of another rank", t.name);
    held.pieces.push_back(memory->second);
  }
  return out;
}

HeldState hold_alone(std::vector<OwnedTensor> tensors, int world, int rank) {
  HeldState out;
  out.all.mesh = parallel::data_mesh(world);
  out.rank = rank;
  for (OwnedTensor& t : tensors) {
    parallel::StateTensor& added = out.all.tensors.emplace_back();
    added.name = std::move(t.name);
    added.whole = t.type;
    added.layout = parallel::Layout::replicate(out.all.mesh);
    added.only_rank = t.owner;
    HeldTensor& held = out.own.emplace_back();
    if (t.owner == rank) held.pieces.push_back(std::move(t.memory));
  }
  return out;
}

HeldState join(HeldState first, const HeldState& second) {
  first.all.tensors.insert(first.all.tensors.end(), second.all.tensors.begin(), second.all.tensors.end());
  first.own.insert(first.own.end(), second.own.begin(), second.own.end());
  return first;
}

Status check_held(const HeldState& holding) {
  if (holding.own.size() != holding.all.tensors.size())
    return error(Code::kInvalid, "[state] {} tensors and the memory of {}", holding.all.tensors.size(),
                 holding.own.size());
  for (std::size_t i = 0; i < holding.size(); ++i) {
    const std::vector<parallel::Piece> pieces = holding.pieces(i);
    const std::vector<Tensor>& memory = holding.own[i].pieces;
    if (pieces.size() != memory.size())
      return error(Code::kInvalid, "[state] '{}': {} pieces and the memory of {}", holding.tensor(i).name,
                   pieces.size(), memory.size());
    for (std::size_t p = 0; p < pieces.size(); ++p)
      if (memory[p].type() != io::stored_type(pieces[p]))
        return error(Code::kInvalid, "[state] the memory of {} is {}", pieces[p].to_text(),
                     memory[p].type().to_string());
  }
  return {};
}

void copy_out(const Tensor& memory, Interval elems, std::byte* to) {
  const std::size_t size = dtype_size(memory.dtype());
  for_runs(memory, elems, [&](const std::byte* from, std::int64_t at, std::int64_t n) {
    std::memcpy(to + static_cast<std::size_t>(at) * size, from, static_cast<std::size_t>(n) * size);
  });
}

void copy_in(const Tensor& memory, Interval elems, const std::byte* from) {
  const std::size_t size = dtype_size(memory.dtype());
  for_runs(memory, elems, [&](std::byte* to, std::int64_t at, std::int64_t n) {
    std::memcpy(to, from + static_cast<std::size_t>(at) * size, static_cast<std::size_t>(n) * size);
  });
}

Tensor view_of(const Tensor& memory, Interval elems) {
  if (!memory.is_contiguous()) return {};
  return Tensor(memory.buffer(), {memory.dtype(), {elems.size()}},
                memory.offset_bytes() + static_cast<std::size_t>(elems.begin) * dtype_size(memory.dtype()));
}

}  // namespace trireme::engine
