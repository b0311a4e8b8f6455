#include "trireme/data/source.h"

#include <algorithm>
#include <charconv>

#include "trireme/data/content_hash.h"
#include "trireme/data/notes.h"
#include "trireme/data/options.h"
#include "trireme/data/read/inflate.h"
#include "trireme/data/read/load.h"

namespace trireme::data {

// Each is defined in the file of its loader.
extern const DataKind kDigits, kIdx, kCifar, kNpy, kCsv, kImages, kText, kSynthetic;

namespace {

using runtime::Task;

Status check_spec(const DataSpec& spec, const DataKind& kind) {
  if (kind.needs_path && spec.path.empty())
    return error(Code::kInvalid, "[data] kind '{}' needs a path: {}", kind.name, kind.doc);
  if (!(spec.test >= 0 && spec.test < 1))
    return error(Code::kInvalid, "[data] test fraction: got {}, expected 0 or more and less than 1",
                 spec.test);
  if (!(spec.validation >= 0 && spec.validation < 1))
    return error(Code::kInvalid, "[data] validation fraction: got {}, expected 0 or more and less than 1",
                 spec.validation);
  if (spec.limit_train < 0 || spec.limit_test < 0)
    return error(Code::kInvalid, "[data] limits: got {} and {}, expected 0 or more", spec.limit_train,
                 spec.limit_test);
  return {};
}

}  // namespace

std::span<const DataKind> data_kinds() {
  static const DataKind kRows[] = {kDigits, kIdx, kCifar, kNpy, kCsv, kImages, kText, kSynthetic};
  return kRows;
}

const DataKind* find_kind(std::string_view name) {
  const auto kinds = data_kinds();
  const auto at = std::ranges::find_if(kinds, [&](const DataKind& kind) { return kind.name == name; });
  return at == kinds.end() ? nullptr : &*at;
}

Result<Shape> parse_sample_shape(std::string_view text) {
  std::vector<std::int64_t> dims;
  const auto bad = [&] {
    return error(Code::kInvalid, "[data] shape: got '{}', expected sizes from 1 on like 3x64x64", text);
  };
  for (const char *at = text.data(), *end = at + text.size(); at != end;) {
    std::int64_t size = 0;
    const auto [next, code] = std::from_chars(at, end, size);
    if (code != std::errc() || size < 1 || dims.size() == static_cast<std::size_t>(kMaxRank) - 1)
      return bad();
    dims.push_back(size);
    at = next;
    if (at == end) break;
    if (*at != 'x' || ++at == end) return bad();
  }
  if (dims.empty()) return bad();
  return Shape::checked(dims);
}

std::optional<OptionFault> check_sample_shape(const OptionValues& options) {
  const std::string written = options.text(kSampleShape);
  if (written.empty() || parse_sample_shape(written).ok()) return std::nullopt;
  return OptionFault{kSampleShape.name, "sizes from 1 on like 3x64x64"};
}

Task<Result<std::shared_ptr<const Dataset>>> make_dataset(runtime::Runtime& rt, DataSpec spec) {
  const DataKind* kind = find_kind(spec.kind);
  if (kind == nullptr) {
    std::string names;
    for (const DataKind& k : data_kinds()) names += fmt::format("{}{}", names.empty() ? "" : ", ", k.name);
    co_return error(Code::kNotFound, "[data] unknown kind '{}'; expected one of {}", spec.kind, names);
  }
  TR_CO_RETURN_IF_ERROR(check_spec(spec, *kind));
  Loaded loaded = co_await kind->load(rt, spec);
  if (!loaded.ok()) co_return loaded.status();
  Dataset& set = **loaded;
  if (set.content_sha256.empty()) {
    Function<Status()> hash = [&]() -> Status {
      set.content_sha256 = content_sha256(set);
      return {};
    };
    TR_CO_RETURN_IF_ERROR(
        co_await parse_on_pool(rt, set.pixels.size() + 4 * set.features.size(), std::move(hash)));
  }
  if (!spec.labels && set.label_kind == Labels::kClass) {
    set.label_kind = Labels::kNone;
    set.labels.clear();
  }
  set.augment = spec.augment;
  TR_CO_RETURN_IF_ERROR(split_parts(set, spec));
  TR_CO_RETURN_IF_ERROR(check_dataset(set));
  if (kind->needs_path) note_parts(set, spec);
  normalise_by_training(set, kind->statistics);
  co_return std::shared_ptr<const Dataset>(std::move(*loaded));
}

Task<Status> parse_on_pool(runtime::Runtime& rt, std::size_t num_bytes, Function<Status()> parse) {
  if (rt.is_phantom()) co_return parse();
  Status status;
  const cost::OpCost work{.flops = static_cast<double>(num_bytes),
                          .bytes = 2.0 * static_cast<double>(num_bytes)};
  co_await rt.compute(
      work, [&](runtime::ComputeContext&) { status = parse(); }, 1, "read data");
  co_return status;
}

Task<Result<Bytes>> read_unpacked(runtime::Runtime& rt, std::string path) {
  Result<Bytes> file = co_await rt.files().read(path);
  if (!file.ok() || !is_gzip(*file)) co_return file;
  Bytes unpacked;
  Function<Status()> work = [&] {
    Result<Bytes> out = gunzip(*file, path);
    if (out.ok()) unpacked = std::move(*out);
    return out.status();
  };
  Status status = co_await parse_on_pool(rt, 4 * file->size(), std::move(work));
  if (!status.ok()) co_return status;
  co_return unpacked;
}

Result<std::string> find_name(const std::vector<std::string>& names,
                              std::initializer_list<std::string_view> words, std::string_view folder) {
  std::vector<std::string> found;
  for (const std::string& name : names)
    if (std::ranges::all_of(words, [&](std::string_view w) { return name.find(w) != std::string::npos; }))
      found.push_back(name);
  if (found.size() == 2 && found[1] == found[0] + ".gz") found.pop_back();
  if (found.empty()) return std::string();
  if (found.size() > 1)
    return error(Code::kInvalid, "[data] {}: both {} and {} fit; keep one of them in the folder", folder,
                 found[0], found[1]);
  return found[0];
}

}  // namespace trireme::data
