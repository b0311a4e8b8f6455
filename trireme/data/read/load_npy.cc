// Arrays saved by NumPy: an .npz file, or a folder of .npy files, with x_train and perhaps y_train, x_test,
// y_test; x and y where nothing is set apart. One .npy file is x alone, for models that need no labels.
#include <algorithm>

#include "trireme/data/notes.h"
#include "trireme/data/options.h"
#include "trireme/data/read/load.h"
#include "trireme/data/read/npy.h"
#include "trireme/data/shown_text.h"

namespace trireme::data {
namespace {

using runtime::Task;

Task<Result<NamedArrays>> read_arrays(runtime::Runtime& rt, std::string path) {
  NamedArrays arrays;
  if (path.ends_with(".npz")) {
    Result<Bytes> file = co_await rt.files().read(path);
    if (!file.ok()) co_return file.status();
    Function<Status()> work = [&]() -> Status {
      TR_ASSIGN_OR_RETURN(arrays, parse_npz(*file, path));
      return {};
    };
    TR_CO_RETURN_IF_ERROR(co_await parse_on_pool(rt, file->size(), std::move(work)));
    co_return arrays;
  }
  if (path.ends_with(".npy")) {
    Result<Bytes> file = co_await rt.files().read(path);
    if (!file.ok()) co_return file.status();
    Function<Status()> work = [&]() -> Status {
      TR_ASSIGN_OR_RETURN(FileArray array, parse_npy(*file, path));
      arrays.emplace_back("x", std::move(array));
      return {};
    };
    TR_CO_RETURN_IF_ERROR(co_await parse_on_pool(rt, file->size(), std::move(work)));
    co_return arrays;
  }
  auto listed = co_await rt.files().list(path);
  if (!listed.ok()) co_return listed.status();
  for (const std::string& name : *listed) {
    if (!name.ends_with(".npy")) continue;
    const std::string file_path = path + "/" + name;
    Result<Bytes> file = co_await rt.files().read(file_path);
    if (!file.ok()) co_return file.status();
    Function<Status()> work = [&]() -> Status {
      TR_ASSIGN_OR_RETURN(FileArray array, parse_npy(*file, file_path));
      arrays.emplace_back(name.substr(0, name.size() - 4), std::move(array));
      return {};
    };
    TR_CO_RETURN_IF_ERROR(co_await parse_on_pool(rt, file->size(), std::move(work)));
  }
  co_return arrays;
}

const FileArray* find(const NamedArrays& arrays, std::initializer_list<std::string_view> names) {
  for (const std::string_view name : names) {
    const auto at = std::ranges::find(arrays, name, &NamedArrays::value_type::first);
    if (at != arrays.end()) return &at->second;
  }
  return nullptr;
}

// Samples of another type that hold nothing but bytes, and not only small ones: images, flat or not.
bool are_bytes(const FileArray& samples, const FileArray* test) {
  if (samples.type.dtype == DType::kU8 || samples.type.shape.rank() < 2) return false;
  const std::optional<FileArray> bytes = to_byte_array(samples);
  return bytes && std::ranges::max(bytes->bytes) >= std::byte{128} &&
         (test == nullptr || to_byte_array(*test));
}

Status make_bytes(NamedArrays& arrays, const std::string& path) {
  for (auto& [name, array] : arrays) {
    if ((name != "x" && name != "x_train" && name != "x_test") || array.type.dtype == DType::kU8) continue;
    std::optional<FileArray> bytes = to_byte_array(array);
    if (!bytes)
      return error(Code::kCorrupt,
                   "[data] {}({}): some values are not integers from 0 to 255; leave out data.pixels=bytes",
                   path, name);
    array = std::move(*bytes);
  }
  return {};
}

Status fill_set(Dataset& set, const NamedArrays& arrays, const std::string& path, bool labels) {
  const FileArray* samples = find(arrays, {"x_train", "x"});
  if (samples == nullptr) {
    std::string names;
    for (const auto& [name, array] : arrays) names += (names.empty() ? "" : ", ") + shown_text(name, 40);
    return error(Code::kNotFound, "[data] {}: no array x_train or x; it has: {}", path,
                 names.empty() ? "none" : names);
  }
  const std::string x = path + "(x_train)", y = path + "(y_train)", xt = path + "(x_test)",
                    yt = path + "(y_test)";
  TR_RETURN_IF_ERROR(append_arrays(set, {samples, find(arrays, {"y_train", "y"}), x, y}));
  set.num_train = samples->type.shape[0];
  if (const FileArray* test = find(arrays, {"x_test"}); test != nullptr) {
    TR_RETURN_IF_ERROR(append_arrays(set, {test, find(arrays, {"y_test"}), xt, yt}));
    set.num_test = test->type.shape[0];
  }
  set.holds_bytes = are_bytes(*samples, find(arrays, {"x_test"}));
  note_samples(set, samples->type, x, set.notes);
  if (labels) TR_RETURN_IF_ERROR(check_labels_used(set.labels, y, set.notes));
  set.num_classes = 1;
  for (const std::int32_t label : set.labels) set.num_classes = std::max(set.num_classes, label + 1);
  return {};
}

Task<Loaded> load(runtime::Runtime& rt, const DataSpec& spec) {
  if (spec.labels && spec.path.ends_with(".npy"))
    co_return error(Code::kInvalid,
                    "[data] {}: one array has samples but no labels; set data.path to a folder with "
                    "x_train.npy and y_train.npy (or x.npy and y.npy; perhaps x_test.npy and y_test.npy), or "
                    "to an .npz file with arrays of these names",
                    spec.path);
  Result<NamedArrays> arrays = co_await read_arrays(rt, spec.path);
  if (!arrays.ok()) co_return arrays.status();
  if (spec.options.text(kPixelForm) == "bytes") TR_CO_RETURN_IF_ERROR(make_bytes(*arrays, spec.path));
  auto set = std::make_shared<Dataset>();
  set->name = "npy";
  set->source = spec.path;
  TR_CO_RETURN_IF_ERROR(fill_set(*set, *arrays, spec.path, spec.labels));
  co_return set;
}

constexpr OptionSpec kOptions[] = {kPixelForm};

}  // namespace

extern const DataKind kNpy{
    .name = "npy",
    .doc = "An .npz file with x_train, y_train, x_test, y_test (or x, y), or a folder of such .npy files.",
    .needs_path = true,
    .statistics = Statistics::kBytes,
    .options = kOptions,
    .load = load};

}  // namespace trireme::data
