#include "trireme/io/reader.h"

#include <algorithm>
#include <set>

#include "trireme/io/generation.h"

namespace trireme::io {
namespace {

using runtime::ComputeContext;
using runtime::Runtime;
using runtime::Task;

// What a path leads to: a file, or the generations in a folder.
struct Place {
  bool is_file = false;
  std::string path;                       // the file, or the one generation that was named
  std::string dir;                        // the checkpoints folder; empty when one generation was named
  std::vector<std::int64_t> generations;  // in `dir`, newest first; at least one

  std::vector<std::string> folders() const {
    if (dir.empty()) return {path};
    std::vector<std::string> out;
    for (const std::int64_t step : generations) out.push_back(dir + "/" + generation_name(step));
    return out;
  }
};

std::string_view base_name(std::string_view path) {
  const std::size_t slash = path.rfind('/');
  return slash == std::string_view::npos ? path : path.substr(slash + 1);
}

Task<Result<Place>> find_place(Runtime& rt, std::string path) {
  while (path.size() > 1 && path.back() == '/') path.pop_back();
  Place place;
  place.path = path;
  Result<bool> there = co_await rt.files().exists(path);
  if (!there.ok()) co_return there.status();
  if (!*there) co_return error(Code::kNotFound, "[checkpoint] {} does not exist; check the path", path);
  place.is_file = path.ends_with(".safetensors");
  if (place.is_file || base_name(path).starts_with("step-")) co_return place;
  Result<bool> whole = co_await rt.files().exists(path + "/" + kManifestName);
  if (!whole.ok()) co_return whole.status();
  if (*whole) co_return place;
  for (const char* below : {"", "/checkpoints"}) {
    place.dir = path + below;
    place.generations = co_await list_generations(rt, place.dir);
    if (!place.generations.empty()) co_return place;
  }
  co_return error(Code::kNotFound,
                  "[checkpoint] there is no checkpoint in {}: expected a run folder, its checkpoints folder, "
                  "one step-<n> of it, or a .safetensors file",
                  path);
}

struct Loaded {
  std::string path;
  std::int64_t step = -1;
  NamedTensors tensors;
};

Task<Result<Loaded>> load_file_alone(Runtime& rt, std::string path) {
  Result<Bytes> bytes = co_await rt.files().read(path);
  if (!bytes.ok()) co_return bytes.status();
  Result<NamedTensors> tensors =
      co_await decode_on_pool(rt, std::make_shared<const Bytes>(std::move(*bytes)));
  if (!tensors.ok()) co_return tensors.status().with_prefix(path + ": ");
  Loaded loaded;
  loaded.path = path;
  loaded.tensors = std::move(*tensors);
  co_return loaded;
}

Task<Result<Loaded>> load_any(Runtime& rt, std::string path) {
  Result<Place> place = co_await find_place(rt, path);
  if (!place.ok()) co_return place.status();
  if (place->is_file) co_return co_await load_file_alone(rt, place->path);
  for (const std::string& folder : place->folders()) {
    Result<Checkpoint> found = co_await load_generation(rt, folder);
    if (!found.ok() && place->dir.empty()) co_return found.status();
    if (!found.ok()) {
      rt.log(fmt::format("checkpoint {} is skipped: {}", base_name(folder), found.status().message()));
      continue;
    }
    Loaded loaded;
    loaded.path = folder;
    loaded.step = found->step;
    loaded.tensors = std::move(found->tensors);
    co_return loaded;
  }
  co_return error(Code::kCorrupt,
                  "[checkpoint] every checkpoint in {} is damaged; `trireme checkpoint verify` says how",
                  place->dir);
}

void add_tensors(const SafetensorsHeader& header, Manifest& manifest) {
  for (const SafetensorsEntry& entry : header.tensors)
    manifest.tensors.push_back({entry.name, 0, entry.type});
}

Task<Result<CheckpointInfo>> describe_file(Runtime& rt, std::string path) {
  const Result<runtime::FileView> file_view = co_await rt.files().map(path);
  if (!file_view.ok()) co_return file_view.status();
  const ByteView bytes = file_view->bytes;
  Result<SafetensorsHeader> header = decode_safetensors_header(bytes);
  if (!header.ok()) co_return header.status().with_prefix(path + ": ");
  CheckpointInfo info;
  info.path = path;
  info.manifest.version = 0;
  ManifestFile file;
  file.name = base_name(path);
  file.bytes = bytes.size();
  file.sha256 = co_await hash_on_pool(rt, bytes, file_view->owner);
  info.manifest.files.push_back(std::move(file));
  add_tensors(*header, info.manifest);
  info.metadata = std::move(header->metadata);
  co_return info;
}

Task<Result<CheckpointInfo>> describe_generation(Runtime& rt, std::string path) {
  Result<Manifest> manifest = co_await load_manifest(rt, path);
  if (!manifest.ok()) co_return manifest.status();
  CheckpointInfo info;
  info.path = path;
  info.is_generation = true;
  info.manifest = std::move(*manifest);
  if (info.manifest.version > 1) co_return info;
  const std::string file = path + "/" + info.manifest.files[0].name;  // version 1 lists no tensors
  const Result<Bytes> bytes = co_await rt.files().read(file);
  if (!bytes.ok()) co_return bytes.status();
  const Result<SafetensorsHeader> header = decode_safetensors_header(*bytes);
  if (!header.ok()) co_return header.status().with_prefix(file + ": ");
  add_tensors(*header, info.manifest);
  co_return info;
}

Task<void> look_at_values(Runtime& rt, const NamedTensors& tensors, VerifiedCheckpoint& out) {
  const auto counts = std::make_shared<std::vector<NonFiniteCount>>(tensors.size());
  std::uint64_t bytes = 0;
  for (const auto& [name, tensor] : tensors) bytes += tensor.type().num_bytes();
  runtime::ComputeFn fn = [counts, kept = tensors](ComputeContext& context) {
    const auto body = [&](std::int64_t begin, std::int64_t end, int) {
      for (auto i = static_cast<std::size_t>(begin); i < static_cast<std::size_t>(end); ++i)
        (*counts)[i] = count_non_finite(kept[i].second);
    };
    context.parallel_for(static_cast<std::int64_t>(kept.size()), body);
  };
  co_await on_pool(rt, bytes, std::move(fn), rt.compute_threads());
  for (std::size_t i = 0; i < tensors.size(); ++i)
    if ((*counts)[i].nans + (*counts)[i].infinities > 0)
      out.non_finite.push_back({tensors[i].first, (*counts)[i]});
  out.num_tensors += tensors.size();
  out.bytes += bytes;
}

Task<void> note_other_files(Runtime& rt, const Manifest& manifest, VerifiedCheckpoint& out) {
  std::set<std::string> named{kManifestName};
  for (const ManifestFile& file : manifest.files) named.insert(file.name);
  const Result<std::vector<std::string>> names = co_await rt.files().list(out.path);
  if (!names.ok()) co_return;
  for (const std::string& name : *names)
    if (!named.contains(name)) out.notes.push_back(fmt::format("{} is not named by the manifest", name));
}

Task<VerifiedCheckpoint> verify_generation(Runtime& rt, std::string path) {
  VerifiedCheckpoint out;
  out.path = path;
  const Result<bool> there = co_await rt.files().exists(path + "/" + kManifestName);
  if (there.ok() && !*there) {
    out.finished = false;
    out.notes.emplace_back(
        "it has no manifest.json: its writer ended too early; the next checkpoint removes it");
    co_return out;
  }
  Result<Manifest> manifest = co_await load_manifest(rt, path);
  if (!manifest.ok()) {
    out.damages.push_back(manifest.status().message());
    co_return out;
  }
  out.step = manifest->step;
  out.num_files = manifest->files.size();
  for (std::size_t i = 0; i < manifest->files.size(); ++i) {
    const Result<NamedTensors> tensors = co_await load_file(rt, path, *manifest, i);
    if (tensors.ok()) co_await look_at_values(rt, *tensors, out);
    if (!tensors.ok()) out.damages.push_back(tensors.status().message());
  }
  co_await note_other_files(rt, *manifest, out);
  co_return out;
}

Task<VerifiedCheckpoint> verify_file(Runtime& rt, std::string path) {
  VerifiedCheckpoint out;
  out.path = path;
  out.num_files = 1;
  const Result<Loaded> loaded = co_await load_file_alone(rt, path);
  if (loaded.ok()) co_await look_at_values(rt, loaded->tensors, out);
  if (!loaded.ok()) out.damages.push_back(loaded.status().message());
  co_return out;
}

}  // namespace

std::int64_t CheckpointInfo::num_elems() const {
  std::int64_t sum = 0;
  for (const ManifestTensor& t : manifest.tensors) sum += t.piece().elems();
  return sum;
}

std::uint64_t CheckpointInfo::tensor_bytes() const {
  std::uint64_t sum = 0;
  for (const ManifestTensor& t : manifest.tensors) sum += stored_type(t.piece()).num_bytes();
  return sum;
}

Task<Result<CheckpointInfo>> describe_checkpoint(Runtime& rt, std::string path) {
  Result<Place> place = co_await find_place(rt, path);
  if (!place.ok()) co_return place.status();
  if (place->is_file) co_return co_await describe_file(rt, place->path);
  Status first;
  for (const std::string& folder : place->folders()) {
    Result<CheckpointInfo> info = co_await describe_generation(rt, folder);
    if (info.ok()) {
      info->generations = place->generations;
      co_return info;
    }
    if (first.ok()) first = info.status();
  }
  co_return first;
}

Task<Result<NamedTensors>> load_tensors(Runtime& rt, std::string path) {
  Result<Loaded> loaded = co_await load_any(rt, path);
  if (!loaded.ok()) co_return loaded.status();
  co_return std::move(loaded->tensors);
}

bool all_ok(const std::vector<VerifiedCheckpoint>& checkpoints) {
  bool any = false;
  for (const VerifiedCheckpoint& c : checkpoints) {
    if (c.finished && !c.ok()) return false;
    any = any || c.finished;
  }
  return any;
}

Task<Result<std::vector<VerifiedCheckpoint>>> verify_checkpoint(Runtime& rt, std::string path) {
  Result<Place> place = co_await find_place(rt, path);
  if (!place.ok()) co_return place.status();
  std::vector<VerifiedCheckpoint> out;
  if (place->is_file) {
    out.push_back(co_await verify_file(rt, place->path));
    co_return out;
  }
  for (const std::string& folder : place->folders()) out.push_back(co_await verify_generation(rt, folder));
  co_return out;
}

Task<Result<CheckpointDiff>> diff_checkpoints(Runtime& rt, std::string first, std::string second) {
  Result<Loaded> a = co_await load_any(rt, first);
  if (!a.ok()) co_return a.status();
  Result<Loaded> b = co_await load_any(rt, second);
  if (!b.ok()) co_return b.status();
  CheckpointDiff diff;
  diff.first_path = a->path;
  diff.second_path = b->path;
  diff.first_step = a->step;
  diff.second_step = b->step;
  diff.tensors = diff_tensors(a->tensors, b->tensors);
  co_return diff;
}

}  // namespace trireme::io
