#include "trireme/train/server_state.h"

#include <algorithm>

#include "trireme/runtime/sync.h"
#include "trireme/tensor/host_zeros.h"
#include "trireme/train/lease_coordinator.h"
#include "trireme/train/server_role.h"

namespace trireme::train {
namespace {

using comm::Letter;
using runtime::Task;

constexpr std::string_view kPrefix = "server/";

net::View view_of(const Tensor& tensor) { return {tensor.raw(), tensor.type().num_bytes()}; }

Result<Tensor> find_entry(const ServedState& served, int peer, const Letter<ServerStateHead>& letter) {
  const ServerStateHead& head = letter.head;
  const auto server = served.find(static_cast<int>(head.server));
  if (peer != 0 || server == served.end() || head.entry >= server->second.size())
    return error(
        Code::kMismatch,
        "[train] rank {} asks for tensor {} of server {}, which is not here: all ranks must run the same "
        "version",
        peer, head.entry, head.server);
  const Tensor& tensor = server->second[head.entry].second;
  if (letter.bytes != 0 && letter.bytes != tensor.type().num_bytes())
    return error(Code::kMismatch, "[train] state '{}' of server {}: got {} bytes, expected {}",
                 server->second[head.entry].first, head.server, letter.bytes, tensor.type().num_bytes());
  return tensor;
}

// Rank 0 alone asks; where it is gone the verdict ends this rank's own work too.
Task<void> reply(comm::Mailbox& mail, int peer, Letter<ServerStateHead> asked, Tensor with) {
  ServerStateAnswer answer;
  answer.is_known = !with.is_null();
  const net::View payload = asked.bytes == 0 && !with.is_null() ? view_of(with) : net::View{};
  (void)co_await mail.reply(peer, asked.ticket, answer, payload);
}

Task<Status> ask(comm::Mailbox& mail, StatePiece piece, net::View payload, net::View into) {
  ServerStateHead head;
  head.entry = piece.index;
  head.server = piece.server;
  const auto answer = co_await mail.ask(piece.rank, head, payload, into);
  if (!answer.ok()) co_return answer.status();
  if (!answer->head.is_known)
    co_return error(Code::kMismatch, "[train] server {} has no '{}': all ranks must run the same version",
                    piece.server, piece.name);
  co_return Status();
}

// Where a piece lies in the whole; all of it where it counts steps.
net::View place_of(const StatePiece& piece, const Tensor& whole) {
  const std::uint64_t bytes = piece.entry.type.num_bytes();
  if (piece.entry.type.dtype == DType::kI64) return {whole.raw(), bytes};
  return {whole.raw() + piece.entry.begin * static_cast<std::int64_t>(sizeof(float)), bytes};
}

Task<Status> read(comm::Mailbox& mail, StatePiece piece, Tensor whole) {
  if (piece.entry.type.dtype != DType::kI64) {
    const net::View into = place_of(piece, whole);
    co_return co_await ask(mail, std::move(piece), net::View{}, into);
  }
  std::int64_t steps = 0;
  const net::View into{reinterpret_cast<std::byte*>(&steps), sizeof(steps)};
  TR_CO_RETURN_IF_ERROR(co_await ask(mail, std::move(piece), net::View{}, into));
  *whole.data<std::int64_t>() = std::max(*whole.data<std::int64_t>(), steps);
  co_return Status();
}

// The piece in the checkpoint; all of it where it counts steps.
parallel::Piece stored_piece(const StatePiece& piece) {
  if (piece.entry.type.dtype == DType::kI64) return parallel::Piece::of_whole(piece.name, piece.whole);
  const std::int64_t count = piece.entry.type.shape.num_elems();
  return parallel::window_of(piece.name, piece.whole, {piece.entry.begin, piece.entry.begin + count});
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

void answer_state_letters(runtime::Runtime& rt, comm::Mailbox& mail, ServedState served) {
  const auto states = std::make_shared<const ServedState>(std::move(served));
  comm::Mailbox::Handler<ServerStateHead> handler;
  handler.place = [states](int peer, const Letter<ServerStateHead>& letter) -> Result<net::View> {
    TR_ASSIGN_OR_RETURN(const Tensor tensor, find_entry(*states, peer, letter));
    return view_of(tensor);
  };
  handler.arrived = [states, &rt, &mail](int peer, const Letter<ServerStateHead>& letter) {
    Result<Tensor> tensor = find_entry(*states, peer, letter);
    rt.spawn(reply(mail, peer, letter, tensor.ok() ? *tensor : Tensor()));
  };
  mail.handle(std::move(handler));
}

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

Task<Result<io::NamedTensors>> collect_server_state(runtime::Runtime& rt, comm::Mailbox& mail,
                                                    std::vector<StatePiece> pieces) {
  std::map<std::string, Tensor> wholes;
  std::vector<Task<Status>> reads;
  for (const StatePiece& piece : pieces) {
    Tensor& whole = wholes[piece.name];
    if (whole.is_null()) {
      TR_CO_ASSIGN_OR_RETURN(whole, allocate_zeros(cpu_device(), piece.whole));
    }
    reads.push_back(read(mail, piece, whole));
  }
  TR_CO_RETURN_IF_ERROR(co_await runtime::when_all(rt, std::move(reads)));
  io::NamedTensors out(wholes.begin(), wholes.end());
  co_return out;
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
    TR_CO_ASSIGN_OR_RETURN(const Tensor part, Tensor::allocate(cpu_device(), piece.entry.type));
    TR_CO_RETURN_IF_ERROR(co_await stored.files->read(stored_piece(piece), part));
    TR_CO_RETURN_IF_ERROR(co_await ask(mail, piece, view_of(part), net::View{}));
  }
  co_return Status();
}

}  // namespace trireme::train
