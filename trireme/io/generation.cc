#include "trireme/io/generation.h"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <map>
#include <set>

#include "trireme/base/hash.h"
#include "trireme/runtime/inline_context.h"

namespace trireme::io {
namespace {

using runtime::ComputeContext;
using runtime::Runtime;
using runtime::Task;

constexpr std::string_view kPrefix = "step-";
constexpr std::size_t kHashBytes = std::size_t{4} << 20U;

// Keeps `step`, the newest whole generation before it and those of `keep`. Later ones are damaged or were
// given up when the run went back, half-written ones are of no use.
Task<Status> remove_others(Runtime& rt, std::string dir, std::int64_t step, std::vector<std::int64_t> keep) {
  bool has_previous = false;
  const std::vector<std::int64_t> all = co_await list_generations(rt, dir);
  for (const std::int64_t other : all) {
    const std::string path = dir + "/" + generation_name(other);
    if (other == step) continue;
    const bool kept = other < step && std::find(keep.begin(), keep.end(), other) != keep.end();
    if (other < step && !has_previous) {
      Result<bool> whole = co_await rt.files().exists(path + "/" + kManifestName);
      if (!whole.ok()) co_return whole.status();
      has_previous = *whole;
      if (has_previous) continue;
    }
    if (kept) continue;
    TR_CO_RETURN_IF_ERROR(co_await rt.files().remove_all(path));
  }
  co_return Status();
}

// Left by a write of the same step that had other shards.
Task<Status> remove_unnamed(Runtime& rt, std::string path, const Manifest& manifest) {
  std::set<std::string> named{kManifestName};
  for (const ManifestFile& file : manifest.files) named.insert(file.name);
  Result<std::vector<std::string>> names = co_await rt.files().list(path);
  if (!names.ok()) co_return names.status();
  for (const std::string& name : *names)
    if (!named.contains(name)) TR_CO_RETURN_IF_ERROR(co_await rt.files().remove_all(path + "/" + name));
  co_return Status();
}

}  // namespace

std::string generation_name(std::int64_t step) { return fmt::format("{}{:09}", kPrefix, step); }

Task<std::vector<std::int64_t>> list_generations(Runtime& rt, std::string dir) {
  std::vector<std::int64_t> found;
  Result<std::vector<std::string>> names = co_await rt.files().list(dir);
  if (!names.ok()) co_return found;
  for (const std::string& name : *names) {
    if (!name.starts_with(kPrefix)) continue;
    std::int64_t step = 0;
    (void)std::from_chars(name.data() + kPrefix.size(), name.data() + name.size(), step);
    if (name == generation_name(step)) found.push_back(step);
  }
  std::sort(found.rbegin(), found.rend());
  co_return found;
}

Task<void> on_pool(Runtime& rt, std::uint64_t bytes, runtime::ComputeFn fn, int width) {
  if (rt.is_phantom()) {
    runtime::InlineContext context;
    fn(context);
    co_return;
  }
  cost::OpCost cost;
  cost.bytes = static_cast<double>(bytes);
  co_await rt.compute(cost, std::move(fn), width, "checkpoint");
}

// The hash is shared with the function: a Task that is destroyed does not stop a request that runs.
Task<std::string> hash_on_pool(Runtime& rt, ByteView bytes, Owner owner) {
  const auto hash = std::make_shared<Sha256>();
  for (std::size_t at = 0; at < bytes.size(); at += kHashBytes) {
    const ByteView part = bytes.subspan(at, std::min(kHashBytes, bytes.size() - at));
    runtime::ComputeFn fn = [hash, part, owner](ComputeContext&) { hash->update(part); };
    co_await on_pool(rt, part.size(), std::move(fn));
  }
  co_return hash->hex_digest();
}

Task<Result<NamedTensors>> decode_on_pool(Runtime& rt, std::shared_ptr<const Bytes> bytes) {
  const auto tensors = std::make_shared<Result<NamedTensors>>(NamedTensors());
  runtime::ComputeFn fn = [tensors, bytes](ComputeContext&) { *tensors = decode_safetensors(*bytes); };
  co_await on_pool(rt, 2 * bytes->size(), std::move(fn));
  co_return std::move(*tensors);
}

Task<Result<ManifestFile>> put_file(Runtime& rt, std::string path, std::string name, ByteView bytes,
                                    Owner owner) {
  ManifestFile file;
  file.name = name;
  file.bytes = bytes.size();
  file.sha256 = co_await hash_on_pool(rt, bytes, owner);
  TR_CO_RETURN_IF_ERROR(co_await rt.files().write_atomic(path + "/" + name, bytes));
  co_return file;
}

Task<Result<WrittenFile>> put_shard(Runtime& rt, std::string path, const Manifest& manifest,
                                    const Shard& shard, std::size_t index, ByteView bytes, Owner owner) {
  WrittenFile written;
  written.index = index;
  TR_CO_ASSIGN_OR_RETURN(written.file, co_await put_file(rt, path, shard.name, bytes, owner));
  if (manifest.version != kManifestOfPieces) co_return written;
  for (std::size_t i = 0; i < shard.count; ++i) {
    const std::size_t size = stored_type(manifest.tensors[shard.first + i].piece()).num_bytes();
    const ByteView piece = bytes.subspan(shard.begins[i], size);
    written.pieces_sha256.push_back(co_await hash_on_pool(rt, piece, owner));
  }
  co_return written;
}

Status add_hashes(std::vector<WrittenFile> files, std::span<const Shard> shards, Manifest& manifest) {
  manifest.files.assign(shards.size(), {});
  for (WrittenFile& w : files) {
    const bool fits = w.index < shards.size() && w.file.name == shards[w.index].name &&
                      w.file.bytes == shards[w.index].bytes && manifest.files[w.index].name.empty() &&
                      w.pieces_sha256.size() ==
                          (manifest.version == kManifestOfPieces ? shards[w.index].count : std::size_t{0});
    if (!fits)
      return error(Code::kCorrupt, "[checkpoint] '{}' of {} bytes is no file of the checkpoint of step {}",
                   w.file.name, w.file.bytes, manifest.step);
    for (std::size_t i = 0; i < w.pieces_sha256.size(); ++i)
      manifest.tensors[shards[w.index].first + i].sha256 = std::move(w.pieces_sha256[i]);
    manifest.files[w.index] = std::move(w.file);
  }
  for (std::size_t i = 0; i < shards.size(); ++i)
    if (manifest.files[i].name.empty())
      return error(Code::kCorrupt, "[checkpoint] nobody has written '{}' of the checkpoint of step {}",
                   shards[i].name, manifest.step);
  return {};
}

Result<std::vector<Shard>> shards_of(const CheckpointPart& part, std::uint64_t max_shard_bytes) {
  if (part.tensors.size() != part.pieces.size())
    return error(Code::kInvalid, "[checkpoint] there are {} pieces and the memory of {}", part.pieces.size(),
                 part.tensors.size());
  for (std::size_t i = 0; i < part.pieces.size(); ++i) {
    const Tensor& t = part.tensors[i].second;
    if (part.pieces[i].writer != part.writer) continue;
    const std::string name = stored_name(part.pieces[i].piece);
    if (t.is_null() && (part.fill || part.source)) continue;
    if (t.is_phantom())
      return error(Code::kInvalid, "[checkpoint] tensor '{}' is a phantom: it has no bytes", name);
    if (t.is_null() || t.type().num_bytes() != stored_type(part.pieces[i].piece).num_bytes())
      return error(Code::kInvalid, "[checkpoint] the memory of '{}' is missing or of another size", name);
    if (part.source && !t.is_contiguous())
      return error(Code::kInvalid, "[checkpoint] the memory of '{}' is not contiguous", name);
  }
  if (part.source && has_parts(part.pieces))
    return error(Code::kInvalid, "[checkpoint] got parts of tensors from a source, expected whole ones");
  return plan_shards(part.pieces, max_shard_bytes);
}

Task<Status> seal_generation(Runtime& rt, std::string dir, const Manifest& manifest) {
  const std::string path = dir + "/" + generation_name(manifest.step);
  const std::string text = manifest_text(manifest);
  TR_CO_RETURN_IF_ERROR(co_await rt.files().write_atomic(path + "/" + kManifestName, as_bytes(text)));
  TR_CO_RETURN_IF_ERROR(co_await rt.files().sync(dir));
  TR_CO_RETURN_IF_ERROR(co_await remove_unnamed(rt, path, manifest));
  co_return co_await remove_others(rt, dir, manifest.step, manifest.keep);
}

Task<void> discard_generation(Runtime& rt, std::string dir, std::int64_t step) {
  const std::string path = dir + "/" + generation_name(step);
  const Result<bool> whole = co_await rt.files().exists(path + "/" + kManifestName);
  if (whole.ok() && !*whole) (void)co_await rt.files().remove_all(path);
}

Task<Result<Manifest>> load_manifest(Runtime& rt, std::string path) {
  const std::string manifest_path = path + "/" + kManifestName;
  const Result<Bytes> text = co_await rt.files().read(manifest_path);
  if (!text.ok()) co_return text.status();
  co_return parse_manifest(as_text(*text), manifest_path);
}

namespace {

Task<Status> check_piece_hashes(Runtime& rt, const Manifest& manifest, std::size_t file,
                                const NamedTensors& tensors) {
  std::size_t i = 0;
  for (const ManifestTensor& said : manifest.tensors) {
    if (said.file != file) continue;
    const auto& [name, tensor] = tensors[i++];
    const ByteView bytes{tensor.raw(), tensor.type().num_bytes()};
    const auto owner = std::make_shared<const Tensor>(tensor);
    if (co_await hash_on_pool(rt, bytes, owner) != said.sha256)
      co_return error(Code::kCorrupt, "[checkpoint] '{}' does not have the hash that the manifest names",
                      name);
  }
  co_return Status();
}

// Copies pieces of tensors to where they belong in the whole ones.
Task<Status> put_together(Runtime& rt, const Manifest& manifest, std::size_t file, NamedTensors pieces,
                          std::map<std::string, Tensor>& wholes) {
  std::size_t i = 0;
  for (const ManifestTensor& said : manifest.tensors) {
    if (said.file != file) continue;
    Tensor& whole = wholes[said.name];
    if (whole.is_null()) {
      TR_CO_ASSIGN_OR_RETURN(whole, Tensor::allocate(cpu_device(), said.type));
    }
    const Tensor from = pieces[i++].second, to = whole;
    runtime::ComputeFn copy = [from, to, piece = said.piece()](ComputeContext&) {
      const std::size_t size = dtype_size(to.dtype());
      for (const parallel::SharedRun& run : parallel::runs_in_whole(piece))
        std::memcpy(to.raw() + static_cast<std::size_t>(run.second) * size,
                    from.raw() + static_cast<std::size_t>(run.first) * size,
                    static_cast<std::size_t>(run.count) * size);
    };
    co_await on_pool(rt, 2 * from.type().num_bytes(), std::move(copy));
  }
  co_return Status();
}

}  // namespace

Task<Result<NamedTensors>> load_file(Runtime& rt, std::string path, const Manifest& manifest,
                                     std::size_t file) {
  const ManifestFile& said = manifest.files[file];
  const std::string file_path = path + "/" + said.name;
  Result<Bytes> read = co_await rt.files().read(file_path);
  if (!read.ok()) co_return read.status();
  const auto bytes = std::make_shared<Bytes>(std::move(*read));
  if (bytes->size() != said.bytes)
    co_return error(Code::kCorrupt, "[checkpoint] {} has {} bytes, its manifest says {}", file_path,
                    bytes->size(), said.bytes);
  const std::string sha256 = co_await hash_on_pool(rt, *bytes, bytes);
  if (sha256 != said.sha256)
    co_return error(Code::kCorrupt, "[checkpoint] {} does not have the hash that its manifest names",
                    file_path);
  Result<NamedTensors> tensors = co_await decode_on_pool(rt, bytes);
  Status whole = tensors.ok() ? check_tensors(manifest, file, *tensors) : tensors.status();
  if (whole.ok() && manifest.version == kManifestOfPieces)
    whole = co_await check_piece_hashes(rt, manifest, file, *tensors);
  if (!whole.ok()) co_return whole.with_prefix(file_path + ": ");
  co_return tensors;
}

Task<Result<Checkpoint>> load_generation(Runtime& rt, std::string path) {
  Result<Manifest> manifest = co_await load_manifest(rt, path);
  if (!manifest.ok()) co_return manifest.status();
  Checkpoint checkpoint;
  checkpoint.step = manifest->step;
  checkpoint.state = manifest->state;
  std::map<std::string, Tensor> wholes;
  for (std::size_t i = 0; i < manifest->files.size(); ++i) {
    Result<NamedTensors> part = co_await load_file(rt, path, *manifest, i);
    if (!part.ok()) co_return part.status();
    if (manifest->version == kManifestOfPieces) {
      TR_CO_RETURN_IF_ERROR(co_await put_together(rt, *manifest, i, std::move(*part), wholes));
    } else {
      std::move(part->begin(), part->end(), std::back_inserter(checkpoint.tensors));
    }
  }
  std::move(wholes.begin(), wholes.end(), std::back_inserter(checkpoint.tensors));
  co_return checkpoint;
}

}  // namespace trireme::io
