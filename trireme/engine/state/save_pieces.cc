#include "trireme/engine/state/save_pieces.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <set>

#include "trireme/engine/share_text.h"
#include "trireme/engine/state/stored_state.h"
#include "trireme/io/generation.h"
#include "trireme/plan/slots.h"

namespace trireme::engine {
namespace {

using io::CheckpointPart;
using io::Manifest;
using io::StoredPiece;
using io::WrittenFile;
using parallel::Interval;
using runtime::Runtime;
using runtime::Task;

parallel::Holdings without_rows(const parallel::Holdings& holdings) {
  parallel::Holdings out;
  out.mesh = holdings.mesh;
  for (const parallel::StateTensor& t : holdings.tensors)
    if (t.rows.empty()) out.tensors.push_back(t);
  return out;
}

// A piece to write, and which tensor of the state it is of.
struct PlannedPiece {
  parallel::Piece piece;
  int writer = 0;
  std::size_t tensor = 0;
};

std::vector<PlannedPiece> planned(const parallel::Holdings& holdings,
                                  const std::vector<StoredPiece>& pieces) {
  std::map<std::string, std::size_t> index;
  for (std::size_t i = 0; i < holdings.tensors.size(); ++i) index[holdings.tensors[i].name] = i;
  std::vector<PlannedPiece> out;
  for (const StoredPiece& p : pieces) out.push_back({p.piece, p.writer, index.at(p.piece.name)});
  return out;
}

// Whether its writer holds the piece as it is to be written.
bool writer_has(const parallel::Holdings& holdings, const PlannedPiece& p) {
  const std::vector<parallel::Piece> own = pieces_held(holdings, p.tensor, p.writer);
  return std::find(own.begin(), own.end(), p.piece) != own.end();
}

// The memory of a piece as this rank holds it; null: it holds it otherwise, or not at all.
Tensor memory_of(const HeldState& holding, const PlannedPiece& planned) {
  const std::vector<parallel::Piece> own = holding.pieces(planned.tensor);
  for (std::size_t p = 0; p < own.size(); ++p)
    if (own[p] == planned.piece) return holding.own[planned.tensor].pieces[p];
  return {};
}

// Brings pieces to writers that do not hold them, in the order of the checkpoint.
struct Filling {
  Runtime& rt;
  comm::Group& group;
  HeldState holding;
  SaveCall call;
  std::vector<PlannedPiece> pieces;

  static Task<Status> fill(std::shared_ptr<const Filling> f, std::vector<MutByteView> to) {
    PieceStream stream(f->rt, f->group,
                       {plan::kSlotSave, f->call.step, "pieces of a checkpoint", f->call.chunk_bytes});
    for (std::size_t i = 0; i < f->pieces.size(); ++i) {
      const PlannedPiece& p = f->pieces[i];
      if (writer_has(f->holding.all, p)) continue;
      const std::size_t size = dtype_size(p.piece.whole.dtype);
      const MutByteView place = i < to.size() ? to[i] : MutByteView();
      const PieceStream::Sink sink = [place, size](Interval elems, Tensor chunk) -> Task<Status> {
        const std::size_t bytes = chunk.type().num_bytes();
        std::memcpy(place.subspan(static_cast<std::size_t>(elems.begin) * size, bytes).data(), chunk.raw(),
                    bytes);
        co_return Status();
      };
      TR_CO_RETURN_IF_ERROR(co_await stream.bring(f->holding, p.tensor, p.piece, p.writer, sink));
    }
    co_return Status();
  }
};

Json to_json(const Result<std::vector<WrittenFile>>& own) {
  if (!own.ok()) return {{"error", own.status().message()}};
  Json files = Json::array();
  for (const WrittenFile& w : *own)
    files.push_back({{"index", w.index},
                     {"name", w.file.name},
                     {"bytes", w.file.bytes},
                     {"sha256", w.file.sha256},
                     {"pieces", w.pieces_sha256}});
  return {{"files", std::move(files)}};
}

Result<std::vector<WrittenFile>> written_from_text(const std::string& text, int rank) {
  TR_ASSIGN_OR_RETURN(const Json json, parse_json(text, fmt::format("what rank {} has written", rank)));
  if (json.contains("error")) {
    TR_ASSIGN_OR_RETURN(const std::string why, json_get<std::string>(json, "error"));
    return error(Code::kUnavailable, "rank {}: {}", rank, why);
  }
  TR_ASSIGN_OR_RETURN(const Json files, json_get<Json>(json, "files"));
  std::vector<WrittenFile> out;
  for (const Json& f : files) {
    WrittenFile& w = out.emplace_back();
    TR_ASSIGN_OR_RETURN(w.index, json_get<std::size_t>(f, "index"));
    TR_ASSIGN_OR_RETURN(w.file.name, json_get<std::string>(f, "name"));
    TR_ASSIGN_OR_RETURN(w.file.bytes, json_get<std::uint64_t>(f, "bytes"));
    TR_ASSIGN_OR_RETURN(w.file.sha256, json_get<std::string>(f, "sha256"));
    TR_ASSIGN_OR_RETURN(w.pieces_sha256, json_get<std::vector<std::string>>(f, "pieces"));
  }
  return out;
}

// The end of a generation with several writers, on each of them. Rank 0 hears of all files, writes the
// manifest, and says how it went: nobody begins the next generation while this one is not over.
class Sealing {
 public:
  Sealing(Runtime& rt, comm::Group& group, SaveCall call, std::vector<io::Shard> shards)
      : rt_(rt), group_(group), call_(std::move(call)), shards_(std::move(shards)) {
    for (const io::Shard& shard : shards_) writers_.insert(shard.writer);
    writers_.erase(0);
  }

  static Task<Status> run(std::shared_ptr<const Sealing> sealing, Manifest manifest,
                          Result<std::vector<WrittenFile>> own) {
    co_return co_await sealing->seal(std::move(manifest), std::move(own));
  }

 private:
  Task<Status> seal(Manifest manifest, Result<std::vector<WrittenFile>> own) const {
    if (group_.rank() != 0) {
      TR_CO_RETURN_IF_ERROR(co_await send_text(group_, call_of(0), 0, to_json(own).dump()));
      TR_CO_ASSIGN_OR_RETURN(const std::string failure, co_await recv_text(group_, call_of(1), 0));
      co_return failure.empty() ? Status() : Status(Code::kUnavailable, failure);
    }
    Status ended;
    TR_CO_RETURN_IF_ERROR(co_await seal_all(std::move(manifest), std::move(own), ended));
    for (const int writer : writers_)
      TR_CO_RETURN_IF_ERROR(co_await send_text(group_, call_of(1), writer, ended.message()));
    co_return ended;
  }

  PeerText call_of(int turn) const {
    return {plan::kSlotWritten, static_cast<std::uint32_t>(call_.step), 2 * turn, "files of a checkpoint"};
  }

  // `ended`: how it went. Fails itself where others cannot be heard or told.
  Task<Status> seal_all(Manifest manifest, Result<std::vector<WrittenFile>> own, Status& ended) const {
    ended = own.status();
    std::vector<WrittenFile> files;
    if (own.ok()) files = std::move(*own);
    for (const int writer : writers_) {
      TR_CO_ASSIGN_OR_RETURN(const std::string text, co_await recv_text(group_, call_of(0), writer));
      Result<std::vector<WrittenFile>> more = written_from_text(text, writer);
      if (!more.ok() && ended.ok()) ended = more.status();
      if (more.ok()) files.insert(files.end(), more->begin(), more->end());
    }
    if (ended.ok()) ended = io::add_hashes(std::move(files), shards_, manifest);
    if (ended.ok()) ended = co_await io::seal_generation(rt_, call_.dir, manifest);
    co_return Status();
  }

  Runtime& rt_;
  comm::Group& group_;
  const SaveCall call_;
  const std::vector<io::Shard> shards_;
  std::set<int> writers_;
};

}  // namespace

bool one_writer(const parallel::Holdings& holdings) { return all_replicated(without_rows(holdings)); }

Task<Result<std::vector<bool>>> who_sees_folder(Runtime& rt, comm::Group& group, std::string dir) {
  // Nobody else's file has this name, since nobody else is rank 0 of this run now.
  const TextCall text{.size_slot = plan::kSlotSaveFolder, .slot = plan::kSlotSave, .label = "folder"};
  std::string name = fmt::format("{}/.seen-{}", dir, rt.now());
  if (group.rank() == 0) {
    TR_CO_RETURN_IF_ERROR(co_await rt.files().make_dirs(dir));
    TR_CO_RETURN_IF_ERROR(co_await rt.files().write(name, as_bytes(name)));
  }
  Result<std::string> told = co_await broadcast_text(rt, group, text, name.substr(dir.size()));
  if (!told.ok()) co_return told.status();
  const Result<bool> found = co_await rt.files().exists(dir + *told);
  TR_CO_ASSIGN_OR_RETURN(const Tensor all,
                         Tensor::allocate(cpu_device(), {DType::kI64, {std::int64_t{group.world()}}}));
  all.data<std::int64_t>()[group.rank()] = found.ok() && *found ? 1 : 0;
  comm::Call call;
  call.slot = plan::kSlotSaveFolder;
  call.step = 1;
  call.label = "who sees the run folder";
  const Tensor in_place;
  TR_CO_RETURN_IF_ERROR(co_await group.allgather(std::move(call), in_place, all));
  if (group.rank() == 0) TR_CO_RETURN_IF_ERROR(co_await rt.files().remove_all(name));
  std::vector<bool> sees;
  for (const std::int64_t one : all.values<std::int64_t>()) sees.push_back(one != 0);
  co_return sees;
}

std::vector<StoredPiece> pieces_to_write(const parallel::Holdings& holdings, const std::vector<bool>& sees) {
  std::vector<StoredPiece> out;
  if (one_writer(holdings)) {
    for (const parallel::StateTensor& t : holdings.tensors)
      out.push_back({parallel::Piece::of_whole(t.name, t.whole), 0});
    return out;
  }
  for (parallel::FirstHeld& held : distinct_pieces(holdings))
    out.push_back({std::move(held.piece), nearest_reader(sees, held.rank)});
  std::stable_sort(out.begin(), out.end(),
                   [](const StoredPiece& a, const StoredPiece& b) { return a.writer < b.writer; });
  return out;
}

Result<CheckpointPart> part_to_write(Runtime& rt, comm::Group& group, const HeldState& holding,
                                     SaveCall call) {
  CheckpointPart part;
  part.step = call.step;
  part.writer = group.rank();
  part.pieces = pieces_to_write(holding.all, call.sees);
  std::vector<PlannedPiece> all = planned(holding.all, part.pieces);
  for (const PlannedPiece& p : all)
    part.tensors.emplace_back(io::stored_name(p.piece),
                              p.writer == part.writer ? memory_of(holding, p) : Tensor());
  const auto has = [&](const PlannedPiece& p) { return writer_has(holding.all, p); };
  if (!std::all_of(all.begin(), all.end(), has)) {
    const std::shared_ptr<const Filling> filling(new Filling{rt, group, holding, call, std::move(all)});
    part.fill = [filling](std::vector<MutByteView> to) { return Filling::fill(filling, std::move(to)); };
  }
  if (std::all_of(part.pieces.begin(), part.pieces.end(), [](const auto& p) { return p.writer == 0; }))
    return part;
  TR_ASSIGN_OR_RETURN(std::vector<io::Shard> shards,
                      io::plan_shards(part.pieces, call.options.max_shard_bytes));
  const auto sealing = std::make_shared<const Sealing>(rt, group, std::move(call), std::move(shards));
  part.seal = [sealing](Manifest manifest, Result<std::vector<WrittenFile>> own) {
    return Sealing::run(sealing, std::move(manifest), std::move(own));
  };
  return part;
}

bool writes_any(const CheckpointPart& part) {
  return part.writer == 0 || std::any_of(part.pieces.begin(), part.pieces.end(),
                                         [&](const StoredPiece& p) { return p.writer == part.writer; });
}

Task<Status> bring_pieces(CheckpointPart part) {
  if (!part.fill) co_return Status();
  std::vector<MutByteView> nowhere;
  co_return co_await part.fill(std::move(nowhere));
}

}  // namespace trireme::engine
