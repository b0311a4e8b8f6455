#include "trireme/data/rows_cache.h"

#include "trireme/base/hash.h"
#include "trireme/data/read/load.h"

namespace trireme::data {
namespace {

using runtime::Task;

constexpr std::string_view kMagic = "TRROWS01";
constexpr std::size_t kKeyBytes = 64, kDigestBytes = 64;
constexpr std::size_t kHeaderBytes = 8 + kKeyBytes + 16;

std::string path_of(const std::string& folder, const std::string& key) {
  return fmt::format("{}/rows-{}.bin", folder, key.substr(0, 32));
}

Bytes encode_header(std::string_view key, const Dataset& set) {
  Bytes out;
  out.reserve(kHeaderBytes);
  for (const std::string_view text : {kMagic, key})
    for (const char c : text) out.push_back(static_cast<std::byte>(c));
  append_le(out, static_cast<std::uint64_t>(set.labels.size()));
  append_le(out, static_cast<std::uint64_t>(set.sample_elems()));
  return out;
}

std::size_t file_bytes(const Dataset& set) {
  const auto count = static_cast<std::size_t>(set.num_samples()),
             elems = static_cast<std::size_t>(set.sample_elems());
  return kHeaderBytes + count * (elems + 4) + kDigestBytes;
}

}  // namespace

bool decode_rows(const runtime::FileView& mapped, std::string_view key, Dataset& set) {
  const ByteView file = mapped.bytes;
  const auto count = static_cast<std::uint64_t>(set.num_samples()),
             elems = static_cast<std::uint64_t>(set.sample_elems());
  if (file.size() != file_bytes(set)) return false;
  const ByteView body = file.first(file.size() - kDigestBytes);
  if (as_text(file.last(kDigestBytes)) != sha256_hex(body)) return false;
  if (as_text(body.first(kMagic.size())) != kMagic || as_text(body.subspan(kMagic.size(), kKeyBytes)) != key)
    return false;
  ByteView rest = body.subspan(kMagic.size() + kKeyBytes);
  std::uint64_t file_count = 0, file_elems = 0;
  if (!take_le(rest, file_count) || !take_le(rest, file_elems) || file_count != count || file_elems != elems)
    return false;
  const auto* pixels = reinterpret_cast<const std::uint8_t*>(rest.data());
  set.pixels.share({pixels, count * elems}, mapped.owner);
  set.labels.resize(count);
  std::memcpy(set.labels.data(), rest.data() + count * elems, count * 4);
  return true;
}

Task<Status> write_rows_cache(runtime::Runtime& rt, std::string folder, std::string key, const Dataset& set) {
  TR_CHECK(key.size() == kKeyBytes && set.dtype == DType::kU8, "a key of {} bytes", key.size());
  const Bytes header = encode_header(key, set);
  const ByteView parts[] = {header, std::as_bytes(set.pixels.view()), std::as_bytes(std::span(set.labels))};
  std::string digest;
  Function<Status()> hash = [&]() -> Status {
    Sha256 sum;
    for (const ByteView part : parts) sum.update(part);
    digest = sum.hex_digest();
    return {};
  };
  TR_CO_RETURN_IF_ERROR(co_await parse_on_pool(rt, set.pixels.size(), std::move(hash)));
  const std::string path = path_of(folder, key);
  // Ranks that write at once write the same bytes, each to a name of its own.
  const std::string beside = fmt::format("{}.{}-{}", path, rt.name(), rt.unix_time_ns());
  TR_CO_RETURN_IF_ERROR(co_await rt.files().make_dirs(folder));
  Status status = co_await rt.files().write(beside, parts[0]);
  for (std::size_t i = 1; i < 3 && status.ok(); ++i) status = co_await rt.files().append(beside, parts[i]);
  if (status.ok()) status = co_await rt.files().append(beside, as_bytes(digest));
  if (status.ok()) status = co_await rt.files().sync(beside);
  if (status.ok()) status = co_await rt.files().rename(beside, path);
  if (!status.ok()) (void)co_await rt.files().remove_all(beside);
  co_return status;
}

Task<bool> may_have_rows(runtime::Runtime& rt, std::string folder, const Dataset& set) {
  const auto names = co_await rt.files().list(folder);
  if (!names.ok()) co_return false;
  for (const std::string& name : *names) {
    if (!name.starts_with("rows-") || !name.ends_with(".bin")) continue;
    const std::string path = folder + "/" + name;
    const Result<runtime::FileView> file = co_await rt.files().map(path);
    if (file.ok() && file->bytes.size() == file_bytes(set)) co_return true;
  }
  co_return false;
}

Task<bool> read_rows_cache(runtime::Runtime& rt, std::string folder, std::string key, Dataset& set) {
  const std::string path = path_of(folder, key);
  Result<runtime::FileView> file = co_await rt.files().map(path);
  if (!file.ok()) co_return false;
  bool good = false;
  Function<Status()> work = [&]() -> Status {
    good = decode_rows(*file, key, set);
    return {};
  };
  const Status status = co_await parse_on_pool(rt, file->bytes.size(), std::move(work));
  co_return status.ok() && good;
}

}  // namespace trireme::data
