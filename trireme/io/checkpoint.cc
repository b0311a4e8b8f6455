#include "trireme/io/checkpoint.h"

#include <algorithm>

#include "trireme/base/hash.h"

namespace trireme::io {
namespace {

using runtime::Task;

constexpr int kFormatVersion = 1;
constexpr std::size_t kGenerations = 2;
constexpr std::string_view kPrefix = "step-";
constexpr const char* kTensorFile = "tensors.safetensors";
constexpr const char* kManifest = "manifest.json";

std::string generation_name(std::int64_t step) { return fmt::format("{}{:09}", kPrefix, step); }

// Names of generations in `dir`, newest first. A missing directory has none.
Task<std::vector<std::string>> generations(runtime::Runtime& rt, std::string dir) {
  std::vector<std::string> found;
  Result<std::vector<std::string>> names = co_await rt.files().list(dir);
  if (names.ok())
    for (std::string& name : *names)
      if (name.starts_with(kPrefix)) found.push_back(std::move(name));
  std::sort(found.rbegin(), found.rend());
  co_return found;
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
  const std::vector<std::string> all = co_await generations(rt, dir);
  for (std::size_t i = kGenerations; i < all.size(); ++i)
    TR_CO_RETURN_IF_ERROR(co_await files.remove_all(dir + "/" + all[i]));
  co_return Status();
}

Task<Result<Checkpoint>> load_newest_checkpoint(runtime::Runtime& rt, std::string dir) {
  const std::vector<std::string> all = co_await generations(rt, dir);
  for (const std::string& name : all) {
    Result<Checkpoint> loaded = co_await load_one(rt, dir + "/" + name);
    if (loaded.ok()) co_return std::move(loaded);
    rt.log(fmt::format("checkpoint {} is skipped: {}", name, loaded.status().message()));
  }
  co_return error(Code::kNotFound, "[checkpoint] no usable checkpoint in {}", dir);
}

}  // namespace trireme::io
