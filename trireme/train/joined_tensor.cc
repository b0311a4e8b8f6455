#include "trireme/train/joined_tensor.h"

#include <algorithm>
#include <cstring>
#include <set>

#include "trireme/parallel/holdings.h"

namespace trireme::train {
namespace {

using parallel::Interval;
using parallel::SharedRun;
using runtime::Task;

// Blocks lie one after the other along the one dimension that is cut in blocks.
void add_runs_of_block(const parallel::Piece& block, std::size_t dim, std::int64_t at, std::int64_t joined,
                       const std::vector<SharedRun>& runs, std::vector<SharedRun>& out) {
  std::int64_t inner = 1;
  for (std::size_t d = dim + 1; d < block.box.size(); ++d) inner *= block.box[d].size();
  const std::int64_t row = block.box[dim].size() * inner;
  for (const SharedRun& run : runs)
    for (std::int64_t done = 0; done < run.count;) {
      const std::int64_t first = run.first + done;
      const std::int64_t count = std::min(run.count - done, row - first % row);
      out.push_back({first / row * joined * inner + at * inner + first % row, run.second + done, count});
      done += count;
    }
}

// The dimension that is cut in blocks, and where each of them lies along it.
struct BlockPlaces {
  std::size_t dim = 0;
  std::int64_t joined = 0;
  std::vector<std::int64_t> begins = {};
};

BlockPlaces places_of(const std::vector<parallel::Piece>& blocks) {
  BlockPlaces out;
  while (blocks.size() > 1 && blocks[0].box[out.dim] == blocks[1].box[out.dim]) ++out.dim;
  for (const parallel::Piece& block : blocks) {
    out.begins.push_back(out.joined);
    out.joined += block.box.empty() ? 0 : block.box[out.dim].size();
  }
  return out;
}

// What one tile gives of a window, where it lies together in the tile's own tensor.
struct Part {
  int tile = 0;
  Interval elems;  // of the tile's tensor
  std::vector<SharedRun> runs;
};

struct Joined {
  TensorType whole;
  parallel::Layout layout;
  parallel::Mesh mesh;
  std::vector<int> tiles;  // the first ones that have what they have
  ReadOfTile read;

  std::vector<Part> parts_of(Interval window) const {
    std::vector<Part> out;
    for (const int tile : tiles)
      for (const SharedRun& run : runs_of_tile(layout, mesh, tile, whole, window)) {
        if (out.empty() || out.back().tile != tile || out.back().elems.end != run.first)
          out.push_back({tile, {run.first, run.first}, {}});
        out.back().elems.end = run.first + run.count;
        out.back().runs.push_back(run);
      }
    return out;
  }
};

Task<Status> read_part(const Joined& from, const Part& part, MutByteView to) {
  const std::size_t size = dtype_size(from.whole.dtype);
  const auto bytes = [size](std::int64_t elems) { return static_cast<std::size_t>(elems) * size; };
  const std::uint64_t begin = bytes(part.elems.begin);
  if (part.runs.size() == 1) {
    const MutByteView place = to.subspan(bytes(part.runs[0].second), bytes(part.runs[0].count));
    co_return co_await from.read(part.tile, begin, place);
  }
  Bytes packed(bytes(part.elems.size()));
  const MutByteView all(packed.data(), packed.size());
  TR_CO_RETURN_IF_ERROR(co_await from.read(part.tile, begin, all));
  for (const SharedRun& run : part.runs)
    std::memcpy(to.data() + bytes(run.second), packed.data() + bytes(run.first - part.elems.begin),
                bytes(run.count));
  co_return Status();
}

Task<Status> read_window(std::shared_ptr<const Joined> from, std::uint64_t begin, MutByteView to) {
  const auto size = static_cast<std::uint64_t>(dtype_size(from->whole.dtype));
  const Interval window{static_cast<std::int64_t>(begin / size),
                        static_cast<std::int64_t>((begin + to.size()) / size)};
  for (const Part& part : from->parts_of(window)) TR_CO_RETURN_IF_ERROR(co_await read_part(*from, part, to));
  co_return Status();
}

}  // namespace

parallel::Mesh mesh_of_replica(parallel::Mesh mesh) {
  for (parallel::Axis& axis : mesh.axes)
    if (axis.name == parallel::kDataAxis) axis.size = 1;
  return mesh;
}

std::vector<SharedRun> runs_of_tile(const parallel::Layout& layout, const parallel::Mesh& mesh, int tile,
                                    const TensorType& whole, Interval window) {
  const std::vector<parallel::Piece> pieces = pieces_of(layout, mesh, tile, "", whole);
  const parallel::Piece wanted = parallel::window_of("", whole, window);
  std::vector<SharedRun> out;
  if (pieces.size() == 1) out = shared_runs(pieces[0], wanted);
  const BlockPlaces places = places_of(pieces);
  for (std::size_t p = 0; pieces.size() > 1 && p < pieces.size(); ++p)
    add_runs_of_block(pieces[p], places.dim, places.begins[p], places.joined, shared_runs(pieces[p], wanted),
                      out);
  std::sort(out.begin(), out.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  return out;
}

std::vector<SharedRun> runs_of_block(const std::vector<parallel::Piece>& blocks, std::size_t p) {
  const SharedRun all{0, 0, blocks[p].elems()};
  if (blocks.size() == 1) return {all};
  const BlockPlaces places = places_of(blocks);
  std::vector<SharedRun> out;
  add_runs_of_block(blocks[p], places.dim, places.begins[p], places.joined, {all}, out);
  return out;
}

DistantTensor joined_tensor(std::string name, const TensorType& whole, parallel::Layout layout,
                            parallel::Mesh mesh, ReadOfTile read) {
  parallel::Holdings holdings;
  holdings.mesh = mesh;
  holdings.tensors.push_back({name, whole, layout});
  std::set<int> tiles;
  for (const parallel::FirstHeld& held : distinct_pieces(holdings, 0)) tiles.insert(held.rank);
  auto joined = std::make_shared<Joined>();
  joined->whole = whole;
  joined->layout = std::move(layout);
  joined->mesh = std::move(mesh);
  joined->tiles.assign(tiles.begin(), tiles.end());
  joined->read = std::move(read);
  const std::shared_ptr<const Joined> from = std::move(joined);
  return {std::move(name), whole,
          [from](std::uint64_t begin, MutByteView to) { return read_window(from, begin, to); }};
}

}  // namespace trireme::train
