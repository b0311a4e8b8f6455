#include "trireme/engine/shard_state.h"

#include <cstring>

#include "trireme/base/json_numbers.h"
#include "trireme/engine/share_text.h"
#include "trireme/plan/slots.h"

namespace trireme::engine {
namespace {

using runtime::Task;

// Moments at which it moves; each has slots of its own.
constexpr int kBalance = 2, kRestore = 4;

StreamCall call_of(int move, std::int64_t step) {
  return {plan::Slots::shard_state(move, 0), step, "state of shards"};
}

}  // namespace

Task<Status> restore_shard_state(runtime::Runtime& rt, comm::Group& workers, const StoredState& stored,
                                 const HeldState& rows, bool may_lack) {
  HeldState found;
  found.all.mesh = rows.all.mesh;
  found.rank = rows.rank;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const parallel::StateTensor& t = rows.tensor(i);
    if (stored.type_of(t.name) == t.whole) {
      found.all.tensors.push_back(t);
      found.own.push_back(rows.own[i]);
      continue;
    }
    if (!may_lack)
      co_return error(Code::kCorrupt, "[checkpoint] '{}' is missing or of another size: expected {} x {}",
                      t.name, t.whole.shape[0], t.whole.shape[1]);
    for (const Tensor& own : rows.own[i].pieces)
      if (own.raw() != nullptr) std::memset(own.raw(), 0, own.type().num_bytes());
  }
  co_return co_await restore_pieces(rt, workers, stored, found, call_of(kRestore, 0));
}

Task<Status> move_shard_state(runtime::Runtime& rt, comm::Group& workers, const HeldState& before,
                              const HeldState& now, std::int64_t step) {
  PieceStream stream(rt, workers, call_of(kBalance, step));
  for (std::size_t i = 0; i < now.size(); ++i)
    for (int to = 0; to < workers.world(); ++to) {
      const std::vector<parallel::Piece> pieces = pieces_held(now.all, i, to);
      if (pieces.empty()) continue;
      const Tensor memory = to == now.rank ? now.own[i].pieces[0] : Tensor();
      const PieceStream::Sink sink = [memory](parallel::Interval elems, Tensor chunk) -> Task<Status> {
        copy_in(memory, elems, chunk.raw());
        co_return Status();
      };
      TR_CO_RETURN_IF_ERROR(co_await stream.bring(before, i, pieces[0], to, sink));
    }
  co_return Status();
}

runtime::Task<Result<std::vector<RowsOfStage>>> learn_rows(runtime::Runtime& rt, comm::Group& stages,
                                                           const comm::NamedState& own) {
  Json mine = Json::array();
  for (const auto& [name, tensor] : own)
    mine.push_back({{"name", name}, {"dtype", dtype_name(tensor.dtype())}, {"columns", tensor.shape()[1]}});
  std::vector<RowsOfStage> all;
  for (int stage = 0; stage < stages.world(); ++stage) {
    const TextCall call{.root = stage,
                        .step = static_cast<std::uint32_t>(stage),
                        .size_slot = plan::kSlotStartSize,
                        .slot = plan::kSlotStart,
                        .label = "state of stages"};
    TR_CO_ASSIGN_OR_RETURN(const std::string text, co_await broadcast_text(rt, stages, call, mine.dump()));
    TR_CO_ASSIGN_OR_RETURN(const Json theirs, parse_json(text, "the state of a stage"));
    for (const Json& of : theirs) {
      RowsOfStage& row = all.emplace_back();
      row.stage = stage;
      TR_CO_ASSIGN_OR_RETURN(row.name, json_get<std::string>(of, "name"));
      TR_CO_ASSIGN_OR_RETURN(const std::string dtype, json_get<std::string>(of, "dtype"));
      TR_CO_ASSIGN_OR_RETURN(row.dtype, parse_dtype(dtype));
      TR_CO_ASSIGN_OR_RETURN(row.columns, json_get_whole<std::int64_t>(of, "columns"));
    }
  }
  co_return all;
}

}  // namespace trireme::engine
