#include "trireme/io/generation.h"

#include <algorithm>
#include <charconv>
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
  const Status whole = tensors.ok() ? check_tensors(manifest, file, *tensors) : tensors.status();
  if (!whole.ok()) co_return whole.with_prefix(file_path + ": ");
  co_return tensors;
}

Task<Result<Checkpoint>> load_generation(Runtime& rt, std::string path) {
  Result<Manifest> manifest = co_await load_manifest(rt, path);
  if (!manifest.ok()) co_return manifest.status();
  Checkpoint checkpoint;
  checkpoint.step = manifest->step;
  checkpoint.state = manifest->state;
  for (std::size_t i = 0; i < manifest->files.size(); ++i) {
    Result<NamedTensors> part = co_await load_file(rt, path, *manifest, i);
    if (!part.ok()) co_return part.status();
    std::move(part->begin(), part->end(), std::back_inserter(checkpoint.tensors));
  }
  co_return checkpoint;
}

}  // namespace trireme::io
