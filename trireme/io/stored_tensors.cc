#include "trireme/io/stored_tensors.h"

#include <cstring>

#include "trireme/io/generation.h"

namespace trireme::io {

using runtime::Runtime;
using runtime::Task;

Task<Result<std::shared_ptr<StoredTensors>>> StoredTensors::open(Runtime& rt, std::string path) {
  Result<CheckpointInfo> info = co_await describe_checkpoint(rt, std::move(path));
  if (!info.ok()) co_return info.status();
  std::shared_ptr<StoredTensors> made(new StoredTensors(rt, std::move(*info)));
  std::vector<std::size_t> in_file(made->manifest().files.size(), 0);
  for (std::size_t i = 0; i < made->manifest().tensors.size(); ++i) {
    const ManifestTensor& t = made->manifest().tensors[i];
    made->entries_[t.name].push_back(i);
    made->places_.push_back(in_file[t.file]++);
  }
  co_return made;
}

std::optional<TensorType> StoredTensors::type_of(const std::string& name) const {
  const auto found = entries_.find(name);
  if (found == entries_.end()) return std::nullopt;
  return manifest().tensors[found->second.front()].type;
}

std::string StoredTensors::path_of(std::size_t file) const {
  return info_.is_generation ? info_.path + "/" + manifest().files[file].name : info_.path;
}

Task<Status> StoredTensors::open_file(std::size_t index) {
  if (file_ != nullptr && file_->index == index) co_return Status();
  file_.reset();
  const ManifestFile& said = manifest().files[index];
  const std::string path = path_of(index);
  const auto file = std::make_shared<File>();
  file->index = index;
  Result<runtime::FileView> view = co_await rt_.files().map(path);
  if (!view.ok()) co_return view.status();
  file->view = std::move(*view);
  if (file->view.bytes.size() != said.bytes)
    co_return error(Code::kCorrupt, "[checkpoint] {} has {} bytes, its manifest says {}", path,
                    file->view.bytes.size(), said.bytes);
  // Pieces have hashes of their own.
  // The hash of a file without a manifest is what it was when it was opened.
  const bool known = verified_ || checked_files_.contains(index);
  if (info_.is_generation && manifest().version != kManifestOfPieces && !known) {
    if (co_await hash_on_pool(rt_, file->view.bytes, file->view.owner) != said.sha256)
      co_return error(Code::kCorrupt, "[checkpoint] {} does not have the hash that its manifest names", path);
    checked_files_.insert(index);
  }
  Result<SafetensorsHeader> header = decode_safetensors_header(file->view.bytes);
  if (!header.ok()) co_return header.status().with_prefix(path + ": ");
  std::size_t count = 0;
  for (std::size_t i = 0; i < places_.size(); ++i) {
    const ManifestTensor& t = manifest().tensors[i];
    if (t.file != index) continue;
    ++count;
    const bool fits = places_[i] < header->tensors.size() &&
                      header->tensors[places_[i]].name == stored_name(t.piece()) &&
                      header->tensors[places_[i]].type == stored_type(t.piece());
    if (!fits)
      co_return error(Code::kCorrupt, "[checkpoint] {} does not hold '{}' where the manifest says", path,
                      stored_name(t.piece()));
  }
  if (count != header->tensors.size())
    co_return error(Code::kCorrupt, "[checkpoint] {} holds {} tensors, the manifest says {}", path,
                    header->tensors.size(), count);
  file->header = std::move(*header);
  file_ = file;
  co_return Status();
}

Task<Status> StoredTensors::check_piece(std::size_t tensor) {
  const ManifestTensor& said = manifest().tensors[tensor];
  if (!said.is_piece || verified_ || checked_pieces_.contains(tensor)) co_return Status();
  const std::shared_ptr<File> file = file_;
  const SafetensorsEntry& entry = file->header.tensors[places_[tensor]];
  const ByteView bytes = file->view.bytes.subspan(entry.begin, entry.end - entry.begin);
  if (co_await hash_on_pool(rt_, bytes, file->view.owner) != said.sha256)
    co_return error(Code::kCorrupt, "[checkpoint] {}: '{}' does not have the hash that the manifest names",
                    path_of(said.file), entry.name);
  checked_pieces_.insert(tensor);
  co_return Status();
}

Task<Status> StoredTensors::copy_from(std::size_t tensor, parallel::Piece piece, Tensor to) {
  const ManifestTensor& said = manifest().tensors[tensor];
  TR_CO_RETURN_IF_ERROR(co_await open_file(said.file));
  const std::shared_ptr<File> file = file_;
  const SafetensorsEntry& entry = file->header.tensors[places_[tensor]];
  const ByteView bytes = file->view.bytes.subspan(entry.begin, entry.end - entry.begin);
  TR_CO_RETURN_IF_ERROR(co_await check_piece(tensor));
  runtime::ComputeFn copy = [file, bytes, to, from = said.piece(),
                             piece = std::move(piece)](runtime::ComputeContext&) {
    const std::size_t size = dtype_size(to.dtype());
    for (const parallel::SharedRun& run : parallel::shared_runs(from, piece))
      std::memcpy(to.raw() + static_cast<std::size_t>(run.second) * size,
                  bytes.data() + static_cast<std::size_t>(run.first) * size,
                  static_cast<std::size_t>(run.count) * size);
  };
  co_await on_pool(rt_, 2 * to.type().num_bytes(), std::move(copy));
  co_return Status();
}

Task<Status> StoredTensors::read(parallel::Piece piece, Tensor to) {
  TR_CHECK(to.is_contiguous() && to.shape().num_elems() == piece.elems() && to.dtype() == piece.whole.dtype,
           "memory of {} for {}", to.type().to_string(), piece.to_text());
  const auto found = entries_.find(piece.name);
  if (found == entries_.end() || manifest().tensors[found->second.front()].type != piece.whole)
    co_return error(Code::kNotFound, "[checkpoint] tensor '{}' is missing or has another type; expected {}",
                    piece.name, piece.whole.to_string());
  for (const std::size_t i : found->second) {
    // Boxes first: most pieces of others have nothing of this one.
    const parallel::Piece stored = manifest().tensors[i].piece();
    if (piece.elems() > 0 && !parallel::intersect(stored.box, piece.box)) continue;
    const bool apart = stored.range.end <= piece.range.begin || piece.range.end <= stored.range.begin;
    if (stored.box == piece.box && piece.elems() > 0 && apart) continue;
    TR_CO_RETURN_IF_ERROR(co_await copy_from(i, piece, to));
  }
  co_return Status();
}

Task<Status> StoredTensors::verify() {
  for (std::size_t i = 0; i < manifest().tensors.size(); ++i) {
    TR_CO_RETURN_IF_ERROR(co_await open_file(manifest().tensors[i].file));
    TR_CO_RETURN_IF_ERROR(co_await check_piece(i));
  }
  verified_ = true;
  co_return Status();
}

namespace {

// Generations of `dir` from the one before step `before` on.
Task<std::vector<std::int64_t>> older_than(Runtime& rt, std::string dir, std::int64_t before) {
  std::vector<std::int64_t> all = co_await list_generations(rt, std::move(dir));
  std::erase_if(all, [before](std::int64_t step) { return step >= before; });
  co_return all;
}

}  // namespace

Task<Result<std::shared_ptr<StoredTensors>>> open_newest(Runtime& rt, std::string dir,
                                                         DamagedCheckpoint newer) {
  const std::vector<std::int64_t> all = co_await older_than(rt, dir, newer.step);
  for (const std::int64_t step : all) {
    const std::string name = generation_name(step), path = dir + "/" + name;
    Result<std::shared_ptr<StoredTensors>> opened = co_await StoredTensors::open(rt, path);
    if (opened.ok()) co_return opened;
    rt.log(fmt::format("checkpoint {} is skipped: {}", name, opened.status().message()));
    const Result<bool> finished = co_await rt.files().exists(path + "/" + kManifestName);
    if (newer.damage.empty() && finished.ok() && *finished) newer.damage = opened.status().message();
  }
  if (newer.damage.empty()) co_return error(Code::kNotFound, "[checkpoint] no usable checkpoint in {}", dir);
  co_return error(
      Code::kCorrupt,
      "[checkpoint] every checkpoint in {} is damaged; the newest: {}; remove the folder to start "
      "over, or put a copy back",
      dir, newer.damage);
}

namespace {

// The generation itself, or the newest one of `dir` before it whose hashes are right.
Task<Result<std::shared_ptr<StoredTensors>>> first_whole(Runtime& rt, std::string dir,
                                                         Result<std::shared_ptr<StoredTensors>> opened) {
  DamagedCheckpoint newer;
  while (opened.ok()) {
    const Status whole = co_await (*opened)->verify();
    if (whole.ok()) co_return opened;
    newer.step = (*opened)->info().manifest.step;
    if (newer.damage.empty()) newer.damage = whole.message();
    rt.log(fmt::format("checkpoint {} is skipped: {}", generation_name(newer.step), whole.message()));
    opened = co_await open_newest(rt, dir, newer);
  }
  co_return opened;
}

}  // namespace

Task<Result<std::shared_ptr<StoredTensors>>> open_newest_verified(Runtime& rt, std::string dir) {
  const DamagedCheckpoint none;
  Result<std::shared_ptr<StoredTensors>> newest = co_await open_newest(rt, dir, none);
  co_return co_await first_whole(rt, std::move(dir), std::move(newest));
}

Task<Result<std::shared_ptr<StoredTensors>>> open_verified(Runtime& rt, std::string path) {
  Result<std::shared_ptr<StoredTensors>> opened = co_await StoredTensors::open(rt, path);
  if (!opened.ok()) co_return opened;
  const CheckpointInfo& info = (*opened)->info();
  const std::size_t slash = info.path.rfind('/');
  const bool has_others = !info.generations.empty() && slash != std::string::npos;
  if (!has_others) {
    TR_CO_RETURN_IF_ERROR(co_await (*opened)->verify());
    co_return opened;
  }
  const std::string dir = info.path.substr(0, slash);
  Result<std::shared_ptr<StoredTensors>> whole = co_await first_whole(rt, dir, std::move(opened));
  if (whole.ok() || whole.status().code() != Code::kCorrupt) co_return whole;
  co_return error(Code::kCorrupt,
                  "[checkpoint] every checkpoint in {} is damaged; `trireme checkpoint verify` says how",
                  dir);
}

}  // namespace trireme::io
