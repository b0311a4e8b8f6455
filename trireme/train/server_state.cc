#include "trireme/train/server_state.h"

#include <algorithm>
#include <cstring>

#include "trireme/engine/state/piece_stream.h"
#include "trireme/runtime/sync.h"
#include "trireme/train/server_role.h"

namespace trireme::train {
namespace {

using runtime::Task;

constexpr std::string_view kPrefix = "server/";

KeptPlace place_of(const StatePiece& piece) {
  return {piece.rank, piece.server, piece.index, piece.entry.type.num_bytes()};
}

// The pieces of one tensor.
struct ServerTensor {
  runtime::Runtime& rt;
  comm::Mailbox& mail;
  std::vector<StatePiece> pieces;
};

// Bytes of a tensor that is cut over servers: what each of them has of the window.
Task<Status> read_values(std::shared_ptr<const ServerTensor> tensor, std::uint64_t begin, MutByteView to) {
  std::vector<Task<Status>> reads;
  std::uint64_t covered = 0;
  for (const StatePiece& piece : tensor->pieces) {
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

// The piece in the checkpoint; all of it where it counts steps.
parallel::Piece stored_piece(const StatePiece& piece) {
  if (piece.entry.type.dtype == DType::kI64) return parallel::Piece::of_whole(piece.name, piece.whole);
  const std::int64_t count = piece.entry.type.shape.num_elems();
  return parallel::window_of(piece.name, piece.whole, {piece.entry.begin, piece.entry.begin + count});
}

Task<Status> restore_piece(comm::Mailbox& mail, StatePiece piece, io::StoredTensors& files) {
  const parallel::Piece stored = stored_piece(piece);
  const std::size_t size = dtype_size(stored.whole.dtype);
  for (const parallel::Interval part : engine::chunks_of(stored, engine::StreamCall::kChunkBytes)) {
    TR_CO_ASSIGN_OR_RETURN(const Tensor chunk,
                           Tensor::allocate(cpu_device(), {stored.whole.dtype, {part.size()}}));
    TR_CO_RETURN_IF_ERROR(co_await files.read(parallel::part_of(stored, part), chunk));
    TR_CO_RETURN_IF_ERROR(co_await write_kept(mail, place_of(piece),
                                              static_cast<std::uint64_t>(part.begin) * size,
                                              {chunk.raw(), chunk.type().num_bytes()}));
  }
  co_return Status();
}

// Whether the checkpoint has state of servers at all.
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
  for (int s = 0; s < roles.servers; ++s) {
    TR_ASSIGN_OR_RETURN(const server::ServerOptions options, job_server_options(job, prepared, roles, s));
    TR_ASSIGN_OR_RETURN(const auto entries, server::describe_state(options));
    for (std::size_t i = 0; i < entries.size(); ++i) {
      const server::StateEntry& entry = entries[i];
      if (entry.state.empty()) continue;
      const auto p = std::find_if(prepared.parameters.begin(), prepared.parameters.end(),
                                  [&](const auto& q) { return q.name == entry.part; });
      TR_CHECK(p != prepared.parameters.end(), "'{}' is a parameter of the model", entry.part);
      StatePiece piece;
      piece.name = fmt::format("{}{}/{}", kPrefix, entry.part, entry.state);
      piece.whole = entry.type.dtype == DType::kI64 ? entry.type : TensorType{DType::kF32, p->type.shape};
      piece.server = s;
      piece.rank = roles.server_ranks[static_cast<std::size_t>(s)];
      piece.index = static_cast<std::uint32_t>(i);
      piece.entry = entry;
      out.push_back(std::move(piece));
    }
  }
  return out;
}

std::vector<DistantTensor> server_tensors(runtime::Runtime& rt, comm::Mailbox& mail,
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
    const auto read = first.entry.type.dtype == DType::kI64 ? read_steps : read_values;
    out.push_back({name, first.whole, [read, tensor = tensor](std::uint64_t begin, MutByteView to) {
                     return read(tensor, begin, to);
                   }});
  }
  return out;
}

Task<Status> read_server_state(const engine::StoredState& stored, std::vector<StatePiece> pieces, int rank,
                               const ServedState& served) {
  if (stored.files == nullptr || !has_server_state(stored)) co_return Status();
  TR_CO_RETURN_IF_ERROR(check_stored(stored, pieces));
  for (const StatePiece& piece : pieces) {
    if (piece.rank != rank) continue;
    const Tensor to = served.at(piece.server)[piece.index].second;
    TR_CO_RETURN_IF_ERROR(co_await stored.files->read(stored_piece(piece), to));
  }
  co_return Status();
}

Task<Status> restore_server_state(comm::Mailbox& mail, std::vector<StatePiece> pieces,
                                  const engine::StoredState& stored) {
  if (!has_server_state(stored)) co_return Status();
  TR_CO_RETURN_IF_ERROR(check_stored(stored, pieces));
  for (const StatePiece& piece : pieces) {
    if (stored.sees[static_cast<std::size_t>(piece.rank)]) continue;
    TR_CO_RETURN_IF_ERROR(co_await restore_piece(mail, piece, *stored.files));
  }
  co_return Status();
}

}  // namespace trireme::train
