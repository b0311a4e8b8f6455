#include "trireme/engine/state/stored_state.h"

#include <algorithm>
#include <cstdlib>

#include "trireme/plan/slots.h"

namespace trireme::engine {
namespace {

using parallel::Interval;
using parallel::Piece;
using runtime::Runtime;
using runtime::Task;

// Who gets a piece from whom: `ranks[0]` reads it, the others want it. Rank i has it from the rank whose
// number lacks the lowest bit of i, so that no rank sends more than log2 times.
struct Relay {
  std::vector<int> ranks;

  int parent(std::size_t i) const { return ranks[i & (i - 1)]; }
  std::vector<int> children(std::size_t i) const {
    std::vector<int> out;
    for (std::size_t bit = 1; (i & bit) == 0 && (i | bit) < ranks.size(); bit <<= 1U)
      out.push_back(ranks[i | bit]);
    std::reverse(out.begin(), out.end());  // who has most to pass on comes first
    return out;
  }
};

// Those that want a piece and do not see the files, after the rank that reads it for them.
Relay relay_of(const std::vector<bool>& sees, const HeldState& holding, std::size_t tensor, int first) {
  Relay relay;
  if (holding.own[tensor].is_shared) return relay;
  for (const int rank : holders(holding.all, tensor, first))
    if (!sees[static_cast<std::size_t>(rank)]) relay.ranks.push_back(rank);
  if (!relay.ranks.empty()) relay.ranks.insert(relay.ranks.begin(), nearest_reader(sees, relay.ranks[0]));
  return relay;
}

// A piece from the files into memory that may be a view with gaps.
Task<Status> read_piece(io::StoredTensors& files, Piece piece, Tensor memory, std::int64_t chunk_bytes) {
  if (memory.is_contiguous()) co_return co_await files.read(std::move(piece), memory);
  for (const Interval part : chunks_of(piece, chunk_bytes)) {
    TR_CO_ASSIGN_OR_RETURN(const Tensor chunk,
                           Tensor::allocate(cpu_device(), {piece.whole.dtype, {part.size()}}));
    TR_CO_RETURN_IF_ERROR(co_await files.read(part_of(piece, part), chunk));
    copy_in(memory, part, chunk.raw());
  }
  co_return Status();
}

// One piece along its relay. `memory`: of this rank's piece; null on the rank that reads.
class Passing {
 public:
  Passing(comm::Group& group, const StoredState& stored, StreamCall& call, std::uint16_t& iteration)
      : group_(group), stored_(stored), call_(call), iteration_(iteration) {}

  Task<Status> pass(Relay relay, Piece piece, Tensor memory) {
    const auto found = std::find(relay.ranks.begin(), relay.ranks.end(), group_.rank());
    for (const Interval part : chunks_of(piece, call_.chunk_bytes)) {
      ++iteration_;
      if (found == relay.ranks.end()) continue;
      const auto at = static_cast<std::size_t>(found - relay.ranks.begin());
      TR_CO_RETURN_IF_ERROR(co_await pass_chunk(relay, at, piece, part, memory));
    }
    co_return Status();
  }

 private:
  comm::Call next_call(const Piece& piece) const {
    comm::Call call;
    call.slot = call_.slot;
    call.step = call_.step;
    call.iteration = iteration_;
    call.label = fmt::format("{} of '{}'", call_.label, piece.name);
    return call;
  }

  Task<Status> pass_chunk(const Relay& relay, std::size_t at, const Piece& piece, Interval part,
                          Tensor memory) {
    Tensor chunk = at == 0 ? Tensor() : view_of(memory, part);
    const bool in_place = !chunk.is_null();
    if (!in_place) {
      TR_CO_ASSIGN_OR_RETURN(chunk, Tensor::allocate(cpu_device(), {piece.whole.dtype, {part.size()}}));
    }
    if (at == 0)
      TR_CO_RETURN_IF_ERROR(co_await stored_.files->read(part_of(piece, part), chunk));
    else
      TR_CO_RETURN_IF_ERROR(co_await group_.recv(next_call(piece), relay.parent(at), chunk));
    if (at != 0 && !in_place) copy_in(memory, part, chunk.raw());
    for (const int child : relay.children(at))
      TR_CO_RETURN_IF_ERROR(co_await group_.send(next_call(piece), child, chunk));
    co_return Status();
  }

  comm::Group& group_;
  const StoredState& stored_;
  const StreamCall& call_;
  std::uint16_t& iteration_;
};

}  // namespace

std::optional<TensorType> StoredState::type_of(const std::string& name) const {
  const auto found = types.find(name);
  return found == types.end() ? std::nullopt : std::optional(found->second);
}

int nearest_reader(const std::vector<bool>& sees, int rank) {
  int best = 0;
  for (int r = 0; r < static_cast<int>(sees.size()); ++r)
    if (sees[static_cast<std::size_t>(r)] && std::abs(r - rank) < std::abs(best - rank)) best = r;
  return best;
}

Json describe_stored(const io::StoredTensors& files) {
  const io::CheckpointInfo& info = files.info();
  Json tensors = Json::object();
  for (const io::ManifestTensor& t : info.manifest.tensors) tensors[t.name] = t.type.to_string();
  return {{"path", info.path},
          {"step", info.manifest.step},
          {"content_sha256", files.content_sha256()},
          {"tensors", std::move(tensors)}};
}

Result<StoredHead> stored_head_from_json(const Json& json) {
  StoredHead head;
  TR_ASSIGN_OR_RETURN(head.path, json_get<std::string>(json, "path"));
  TR_ASSIGN_OR_RETURN(head.step, json_get<std::int64_t>(json, "step"));
  TR_ASSIGN_OR_RETURN(head.content_sha256, json_get<std::string>(json, "content_sha256"));
  TR_ASSIGN_OR_RETURN(const Json tensors, json_get<Json>(json, "tensors"));
  for (const auto& [name, text] : tensors.items()) {
    TR_ASSIGN_OR_RETURN(head.types[name], TensorType::parse(text.is_string() ? text.get<std::string>() : ""));
  }
  return head;
}

Task<Result<StoredState>> share_stored(Runtime& rt, comm::Group& group, StoredHead head, std::string path,
                                       std::shared_ptr<io::StoredTensors> opened) {
  StoredState out;
  out.types = std::move(head.types);
  out.files = std::move(opened);
  if (out.files == nullptr) {
    Result<std::shared_ptr<io::StoredTensors>> found = co_await io::StoredTensors::open(rt, std::move(path));
    if (found.ok() && (*found)->content_sha256() == head.content_sha256) out.files = std::move(*found);
    if (out.files != nullptr && group.same_host(0)) out.files->take_as_verified();
  }
  TR_CO_ASSIGN_OR_RETURN(const Tensor all,
                         Tensor::allocate(cpu_device(), {DType::kI64, {std::int64_t{group.world()}}}));
  all.data<std::int64_t>()[group.rank()] = out.files != nullptr ? 1 : 0;
  if (group.world() > 1) {
    comm::Call call;
    call.slot = plan::kSlotRestore;
    call.label = "who reads the checkpoint";
    const Tensor in_place;
    TR_CO_RETURN_IF_ERROR(co_await group.allgather(std::move(call), in_place, all));
  }
  for (const std::int64_t sees : all.values<std::int64_t>()) out.sees.push_back(sees != 0);
  co_return out;
}

Task<Status> restore_pieces(Runtime& rt, comm::Group& group, const StoredState& stored,
                            const HeldState& holding, StreamCall call) {
  if (rt.is_phantom()) co_return Status();
  for (std::size_t i = 0; i < holding.size(); ++i) {
    const parallel::StateTensor& t = holding.tensor(i);
    if (stored.type_of(t.name) != t.whole)
      co_return error(Code::kCorrupt, "[checkpoint] tensor '{}' is missing or has another type; expected {}",
                      t.name, t.whole.to_string());
  }
  // The group may be the first ranks of those that share the files.
  const std::vector<bool> sees(stored.sees.begin(), stored.sees.begin() + group.world());
  std::uint16_t iteration = 0;
  Passing passing(group, stored, call, iteration);
  for (std::size_t i = 0; i < holding.size(); ++i) {
    const std::vector<Piece> pieces = holding.pieces(i);
    const HeldTensor& own = holding.own[i];
    if (stored.files != nullptr && (!own.is_shared || holding.all.mesh.replica_of(holding.rank) == 0))
      for (std::size_t p = 0; p < pieces.size(); ++p)
        TR_CO_RETURN_IF_ERROR(co_await read_piece(*stored.files, pieces[p], own.pieces[p], call.chunk_bytes));
    for (const parallel::FirstHeld& held : distinct_pieces(holding.all, i)) {
      Relay relay = relay_of(sees, holding, i, held.rank);
      if (relay.ranks.empty()) continue;
      Tensor memory;
      for (std::size_t p = 0; p < pieces.size(); ++p)
        if (pieces[p] == held.piece) memory = own.pieces[p];
      TR_CO_RETURN_IF_ERROR(co_await passing.pass(std::move(relay), held.piece, std::move(memory)));
    }
  }
  co_return Status();
}

}  // namespace trireme::engine
