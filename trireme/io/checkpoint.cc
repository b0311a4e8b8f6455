#include "trireme/io/checkpoint.h"

#include <algorithm>
#include <charconv>

#include "trireme/base/hash.h"

namespace trireme::io {
namespace {

using runtime::Task;

constexpr int kFormatVersion = 1;
constexpr std::string_view kPrefix = "step-";
constexpr const char* kTensorFile = "tensors.safetensors";
constexpr const char* kManifest = "manifest.json";

std::string generation_name(std::int64_t step) { return fmt::format("{}{:09}", kPrefix, step); }

// Steps of the generations in `dir`, newest first; other names are not ours. A missing directory has none.
Task<std::vector<std::int64_t>> generations(runtime::Runtime& rt, std::string dir) {
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

// Keeps `step` and the newest whole generation before it. Later ones are damaged or were given up when the
// run went back, half-written ones are of no use.
Task<Status> remove_others(runtime::Runtime& rt, std::string dir, std::int64_t step) {
  bool has_previous = false;
  const std::vector<std::int64_t> all = co_await generations(rt, dir);
  for (const std::int64_t other : all) {
    const std::string path = dir + "/" + generation_name(other);
    if (other == step) continue;
    if (other < step && !has_previous) {
      Result<bool> whole = co_await rt.files().exists(path + "/" + kManifest);
      if (!whole.ok()) co_return whole.status();
      has_previous = *whole;
      if (has_previous) continue;
    }
    TR_CO_RETURN_IF_ERROR(co_await rt.files().remove_all(path));
  }
  co_return Status();
}

Task<Result<Checkpoint>> load_one(runtime::Runtime& rt, std::string path) {
  const std::string manifest_path = path + "/" + kManifest;
  Result<Bytes> text = co_await rt.files().read(manifest_path);
  if (!text.ok()) co_return text.status();
  TR_CO_ASSIGN_OR_RETURN(const Json manifest, parse_json(as_text(*text), manifest_path));
  TR_CO_ASSIGN_OR_RETURN(const int version, json_get<int>(manifest, "version"));
  if (version != kFormatVersion)
    co_return error(Code::kCorrupt, "[checkpoint] {} has version {}, expected {}", manifest_path, version,
                    kFormatVersion);
  Checkpoint checkpoint;
  TR_CO_ASSIGN_OR_RETURN(checkpoint.step, json_get<std::int64_t>(manifest, "step"));
  TR_CO_ASSIGN_OR_RETURN(checkpoint.state, json_get<Json>(manifest, "state"));
  TR_CO_ASSIGN_OR_RETURN(const auto sha256, json_get<std::string>(manifest, "tensors_sha256"));
  const std::string tensor_path = path + "/" + kTensorFile;
  Result<Bytes> bytes = co_await rt.files().read(tensor_path);
  if (!bytes.ok()) co_return bytes.status();
  if (sha256_hex(*bytes) != sha256)
    co_return error(Code::kCorrupt, "[checkpoint] {} does not have the hash that its manifest names",
                    tensor_path);
  Result<NamedTensors> tensors = decode_safetensors(*bytes);
  if (!tensors.ok()) co_return tensors.status().with_prefix(tensor_path + ": ");
  checkpoint.tensors = std::move(*tensors);
  co_return checkpoint;
}

}  // namespace

Task<Status> save_checkpoint(runtime::Runtime& rt, std::string dir, const Checkpoint& checkpoint) {
  runtime::Files& files = rt.files();
  const std::string path = dir + "/" + generation_name(checkpoint.step);
  TR_CO_ASSIGN_OR_RETURN(const Bytes tensors, encode_safetensors(checkpoint.tensors));
  const Json manifest = {{"version", kFormatVersion},
                         {"step", checkpoint.step},
                         {"tensors", kTensorFile},
                         {"tensors_bytes", tensors.size()},
                         {"tensors_sha256", sha256_hex(tensors)},
                         {"state", checkpoint.state}};
  const std::string text = manifest.dump(2) + "\n";
  // A half-written generation of the same step (a crash, then the same step again) has no manifest or the
  // same content.
  TR_CO_RETURN_IF_ERROR(co_await files.make_dirs(path));
  TR_CO_RETURN_IF_ERROR(co_await files.write_atomic(path + "/" + kTensorFile, tensors));
  TR_CO_RETURN_IF_ERROR(co_await files.write_atomic(path + "/" + kManifest, as_bytes(text)));
  TR_CO_RETURN_IF_ERROR(co_await files.sync(dir));
  co_return co_await remove_others(rt, dir, checkpoint.step);
}

Task<Result<Checkpoint>> load_newest_checkpoint(runtime::Runtime& rt, std::string dir) {
  const std::vector<std::int64_t> all = co_await generations(rt, dir);
  for (const std::int64_t step : all) {
    const std::string name = generation_name(step);
    Result<Checkpoint> loaded = co_await load_one(rt, dir + "/" + name);
    if (loaded.ok()) co_return std::move(loaded);
    rt.log(fmt::format("checkpoint {} is skipped: {}", name, loaded.status().message()));
  }
  co_return error(Code::kNotFound, "[checkpoint] no usable checkpoint in {}", dir);
}

}  // namespace trireme::io
