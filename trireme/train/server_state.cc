#include "trireme/train/server_state.h"

#include <algorithm>
#include <cstring>

#include "trireme/engine/state/piece_stream.h"
#include "trireme/prepare/laid_out.h"
#include "trireme/runtime/sync.h"
#include "trireme/train/joined_tensor.h"
#include "trireme/train/server_role.h"

namespace trireme::train {
namespace {

using runtime::Task;

constexpr std::string_view kPrefix = "server/";

KeptPlace place_of(const StatePiece& piece) {
  return {piece.rank, piece.number, piece.index, piece.entry.type.num_bytes()};
}

// The pieces of one tensor.
struct ServerTensor {
  runtime::Runtime& rt;
  comm::Mailbox& mail;
  std::vector<StatePiece> pieces;
};

// Bytes of a tile's tensor that is cut over servers: what each of them has of the window.
Task<Status> read_values(std::shared_ptr<const ServerTensor> tensor, int tile, std::uint64_t begin,
                         MutByteView to) {
  std::vector<Task<Status>> reads;
  std::uint64_t covered = 0;
  for (const StatePiece& piece : tensor->pieces) {
    if (piece.tile != tile) continue;
    const std::uint64_t first = static_cast<std::uint64_t>(piece.entry.begin) * sizeof(float);
    const std::uint64_t from = std::max(begin, first);
    const std::uint64_t end = std::min(begin + to.size(), first + piece.entry.type.num_bytes());
    if (from >= end) continue;
    covered += end - from;
    reads.push_back(
        read_kept(tensor->mail, place_of(piece), from - first, to.subspan(from - begin, end - from)));
  }
  TR_CHECK(covered == to.size(), "servers keep all of '{}'", tensor->pieces.front().name);
  co_return co_await runtime::when_all(tensor->rt, std::move(reads));
}

// All servers of a parameter count its updates.
Task<Status> read_steps(std::shared_ptr<const ServerTensor> tensor, std::uint64_t begin, MutByteView to) {
  std::int64_t most = 0;
  for (const StatePiece& piece : tensor->pieces) {
    std::int64_t steps = 0;
    const MutByteView into{reinterpret_cast<std::byte*>(&steps), sizeof(steps)};
    TR_CO_RETURN_IF_ERROR(co_await read_kept(tensor->mail, place_of(piece), 0, into));
    most = std::max(most, steps);
  }
  std::memcpy(to.data(), reinterpret_cast<const std::byte*>(&most) + begin, to.size());
  co_return Status();
}

// What a block of a tile's tensor has of `wanted`, which counts in that tensor, into `to`, which holds it.
Task<Status> read_from_block(io::StoredTensors& files, parallel::Piece block,
                             std::vector<parallel::SharedRun> runs, parallel::Interval wanted, Tensor to) {
  std::erase_if(runs, [&](parallel::SharedRun& run) {
    const std::int64_t skipped = std::max<std::int64_t>(0, wanted.begin - run.first);
    const std::int64_t end = std::min(run.first + run.count, wanted.end);
    run = {run.first + skipped - wanted.begin, run.second + skipped, end - run.first - skipped};
    return run.count <= 0;
  });
  if (runs.empty()) co_return Status();
  const parallel::Interval part{runs.front().second, runs.back().second + runs.back().count};  // of the block
  const DType dtype = block.whole.dtype;
  const std::size_t size = dtype_size(dtype);
  TR_CO_ASSIGN_OR_RETURN(const Tensor read, Tensor::allocate(cpu_device(), {dtype, {part.size()}}));
  TR_CO_RETURN_IF_ERROR(co_await files.read(parallel::part_of(block, part), read));
  for (const parallel::SharedRun& run : runs)
    std::memcpy(to.raw() + static_cast<std::size_t>(run.first) * size,
                read.raw() + static_cast<std::size_t>(run.second - part.begin) * size,
                static_cast<std::size_t>(run.count) * size);
  co_return Status();
}

// Elements of what a server keeps, counted from its first one; all of it where it counts steps. Blocks of a
// tile's tensor lie apart in the checkpoint.
Task<Status> read_stored(io::StoredTensors& files, const StatePiece& piece, const parallel::Mesh& mesh,
                         parallel::Interval elems, Tensor to) {
  if (piece.entry.type.dtype == DType::kI64)
    co_return co_await files.read(parallel::Piece::of_whole(piece.name, piece.whole), to);
  const std::vector<parallel::Piece> blocks =
      parallel::pieces_of(piece.layout, mesh, piece.tile, piece.name, piece.whole);
  const parallel::Interval part{piece.entry.begin + elems.begin, piece.entry.begin + elems.end};
  if (blocks.size() == 1) co_return co_await files.read(parallel::part_of(blocks[0], part), to);
  for (std::size_t p = 0; p < blocks.size(); ++p) {
    std::vector<parallel::SharedRun> runs = runs_of_block(blocks, p);
    TR_CO_RETURN_IF_ERROR(co_await read_from_block(files, blocks[p], std::move(runs), part, to));
  }
  co_return Status();
}

Task<Status> restore_piece(comm::Mailbox& mail, StatePiece piece, parallel::Mesh mesh,
                           io::StoredTensors& files) {
  const TensorType& type = piece.entry.type;
  const std::size_t size = dtype_size(type.dtype);
  const parallel::Piece mine = parallel::Piece::of_whole(piece.name, type);
  for (const parallel::Interval part : engine::chunks_of(mine, engine::StreamCall::kChunkBytes)) {
    TR_CO_ASSIGN_OR_RETURN(const Tensor chunk, Tensor::allocate(cpu_device(), {type.dtype, {part.size()}}));
    TR_CO_RETURN_IF_ERROR(co_await read_stored(files, piece, mesh, part, chunk));
    const net::View bytes{chunk.raw(), chunk.type().num_bytes()};
    const auto begin = static_cast<std::uint64_t>(part.begin) * size;
    TR_CO_RETURN_IF_ERROR(co_await write_kept(mail, place_of(piece), begin, bytes));
  }
  co_return Status();
}

bool has_server_state(const engine::StoredState& stored) {
  const auto first = stored.types.lower_bound(std::string(kPrefix));
  return first != stored.types.end() && first->first.starts_with(kPrefix);
}

Status check_stored(const engine::StoredState& stored, const std::vector<StatePiece>& pieces) {
  for (const StatePiece& piece : pieces)
    if (stored.type_of(piece.name) != piece.whole)
      return error(Code::kCorrupt, "[checkpoint] tensor '{}' is missing or has another type; expected {}",
                   piece.name, piece.whole.to_string());
  return {};
}

}  // namespace

Result<std::vector<StatePiece>> server_state_pieces(const job::Job& job, const prepare::Prepared& prepared,
                                                    const job::Roles& roles) {
  std::vector<StatePiece> out;
  for (int n = 0; n < roles.servers * roles.num_places(); ++n) {
    const int s = n / roles.num_places(), tile = n % roles.num_places();
    TR_ASSIGN_OR_RETURN(const server::ServerOptions options,
                        job_server_options(job, prepared, roles, s, tile));
    TR_ASSIGN_OR_RETURN(const auto entries, server::describe_state(options));
    for (std::size_t i = 0; i < entries.size(); ++i) {
      const server::StateEntry& entry = entries[i];
      if (entry.state.empty()) continue;
      const auto p = std::find_if(prepared.parameters.begin(), prepared.parameters.end(),
                                  [&](const auto& q) { return q.name == entry.part; });
      if (p == prepared.parameters.end()) continue;  // a bucket without parameters, which learns nothing
      const prepare::LaidOut of = prepare::laid_out(prepared, p->name, p->type);
      StatePiece piece;
      piece.name = fmt::format("{}{}/{}", kPrefix, entry.part, entry.state);
      piece.whole = entry.type.dtype == DType::kI64 ? entry.type : TensorType{DType::kF32, of.whole.shape};
      piece.layout = of.layout;
      piece.tile = tile;
      piece.number = served_number(roles, s, tile);
      piece.rank = roles.server_ranks[static_cast<std::size_t>(s)];
      piece.index = static_cast<std::uint32_t>(i);
      piece.entry = entry;
      out.push_back(std::move(piece));
    }
  }
  return out;
}

std::vector<DistantTensor> server_tensors(runtime::Runtime& rt, comm::Mailbox& mail, const job::Roles& roles,
                                          std::span<const StatePiece> pieces) {
  std::map<std::string, std::shared_ptr<ServerTensor>> by_name;
  for (const StatePiece& piece : pieces) {
    std::shared_ptr<ServerTensor>& tensor = by_name[piece.name];
    if (tensor == nullptr) tensor.reset(new ServerTensor{rt, mail, {}});
    tensor->pieces.push_back(piece);
  }
  std::vector<DistantTensor> out;
  for (const auto& [name, tensor] : by_name) {
    const StatePiece& first = tensor->pieces.front();
    if (first.entry.type.dtype == DType::kI64)
      out.push_back({name, first.whole, [tensor = tensor](std::uint64_t begin, MutByteView to) {
                       return read_steps(tensor, begin, to);
                     }});
    else
      out.push_back(joined_tensor(name, first.whole, first.layout, mesh_of_replica(roles.mesh),
                                  [tensor = tensor](int tile, std::uint64_t begin, MutByteView to) {
                                    return read_values(tensor, tile, begin, to);
                                  }));
  }
  return out;
}

Task<Status> read_server_state(const engine::StoredState& stored, std::vector<StatePiece> pieces,
                               const job::Roles& roles, int rank, const ServedState& served) {
  if (stored.files == nullptr || !has_server_state(stored)) co_return Status();
  TR_CO_RETURN_IF_ERROR(check_stored(stored, pieces));
  const parallel::Mesh mesh = mesh_of_replica(roles.mesh);
  for (const StatePiece& piece : pieces) {
    if (piece.rank != rank) continue;
    const Tensor to = served.at(piece.number)[piece.index].second;
    const parallel::Interval all{0, piece.entry.type.shape.num_elems()};
    TR_CO_RETURN_IF_ERROR(co_await read_stored(*stored.files, piece, mesh, all, to));
  }
  co_return Status();
}

Task<Status> restore_server_state(comm::Mailbox& mail, std::vector<StatePiece> pieces,
                                  const job::Roles& roles, const engine::StoredState& stored) {
  if (!has_server_state(stored)) co_return Status();
  TR_CO_RETURN_IF_ERROR(check_stored(stored, pieces));
  const parallel::Mesh mesh = mesh_of_replica(roles.mesh);
  for (const StatePiece& piece : pieces) {
    if (stored.sees[static_cast<std::size_t>(piece.rank)]) continue;
    TR_CO_RETURN_IF_ERROR(co_await restore_piece(mail, piece, mesh, *stored.files));
  }
  co_return Status();
}

}  // namespace trireme::train
