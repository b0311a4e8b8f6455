// A folder of pictures, one folder per class, perhaps below train/ and test/ (or val/). All are decoded and
// cut to one shape when loaded; a file that is no picture by its name is skipped.
#include <algorithm>
#include <map>
#include <numeric>

#include "trireme/base/hash.h"
#include "trireme/data/content_hash.h"
#include "trireme/data/options.h"
#include "trireme/data/read/image.h"
#include "trireme/data/read/load.h"
#include "trireme/data/rows_cache.h"
#include "trireme/data/shown_text.h"

namespace trireme::data {
namespace {

using runtime::Task;

constexpr std::size_t kFilesAtOnce = 256;  // read, then decoded side by side
constexpr std::size_t kMaxSetBytes = std::size_t{64} << 30;

struct PictureFile {
  std::string path;
  std::int32_t label;
};

bool is_hidden(const std::string& name) { return name.starts_with("."); }

// Names of the folders in `path`: what can be listed.
Task<Result<std::vector<std::string>>> folders_in(runtime::Runtime& rt, std::string path) {
  auto listed = co_await rt.files().list(path);
  if (!listed.ok()) co_return listed.status();
  std::vector<std::string> folders;
  for (const std::string& name : *listed) {
    if (is_hidden(name) || is_image_name(name)) continue;
    const std::string below = path + "/" + name;
    auto inside = co_await rt.files().list(below);
    if (inside.ok()) folders.push_back(name);
  }
  co_return folders;
}

// What a folder without images holds, and what to do about it.
std::string other_kinds(const std::vector<std::string>& names) {
  std::map<std::string, int> kinds;
  for (const std::string& name : names) {
    if (is_hidden(name)) continue;
    const std::size_t dot = name.rfind('.');
    ++kinds[dot == std::string::npos || dot == 0 ? "without an extension" : shown_text(name.substr(dot), 12)];
  }
  if (kinds.empty()) return "it is empty: put the images of this class into it, or remove it";
  const auto most = std::ranges::max_element(kinds, {}, [](const auto& k) { return k.second; });
  std::string text = "it has ";
  for (const auto& [kind, count] : kinds)
    text += fmt::format("{}{} {}", text.size() > 7 ? ", " : "", count, kind);
  if (!most->first.starts_with(".")) return text + "; images are known by the ends of their names";
  return fmt::format("{}; convert them to PNG (ImageMagick: mogrify -format png *{})", text, most->first);
}

// The pictures of a part, class by class. Classes are the folders of the training part.
Task<Status> list_part(runtime::Runtime& rt, std::string path, std::vector<std::string>& classes,
                       bool training, std::vector<PictureFile>& files) {
  auto folders = co_await folders_in(rt, path);
  if (!folders.ok()) co_return folders.status();
  if (training) classes = *folders;
  for (const std::string& name : *folders) {
    const auto at = std::ranges::find(classes, name);
    if (at == classes.end())
      co_return error(Code::kCorrupt, "[data] {}/{}: a class that the training part does not have", path,
                      name);
    const std::string below = path + "/" + name;
    auto listed = co_await rt.files().list(below);
    if (!listed.ok()) co_return listed.status();
    const std::size_t before = files.size();
    for (const std::string& file : *listed)
      if (!is_hidden(file) && is_image_name(file))
        files.push_back({below + "/" + file, static_cast<std::int32_t>(at - classes.begin())});
    if (training && files.size() == before)
      co_return error(Code::kCorrupt, "[data] {}/{}: no .jpg, .jpeg or .png file in it; {}", path, name,
                      other_kinds(*listed));
  }
  co_return Status();
}

// The contents of files[begin, end).
Task<Result<std::vector<Bytes>>> read_some(runtime::Runtime& rt, const std::vector<PictureFile>& files,
                                           std::size_t begin, std::size_t end) {
  std::vector<Bytes> contents;
  for (std::size_t i = begin; i < end; ++i) {
    Result<Bytes> file = co_await rt.files().read(files[i].path);
    if (!file.ok()) co_return file.status();
    contents.push_back(std::move(*file));
  }
  co_return contents;
}

std::size_t size_of(const std::vector<Bytes>& contents) {
  return std::accumulate(contents.begin(), contents.end(), std::size_t{0},
                         [](std::size_t sum, const Bytes& file) { return sum + file.size(); });
}

// Adds labels and contents of the files from `begin` on to the set's name.
Task<Status> hash_some(runtime::Runtime& rt, Sha256& sum, const std::vector<PictureFile>& files,
                       std::size_t begin, const std::vector<Bytes>& contents) {
  Function<Status()> work = [&]() -> Status {
    for (std::size_t i = 0; i < contents.size(); ++i) {
      sum.update(fmt::format("{} {}\n", files[begin + i].label, contents[i].size()));
      sum.update(contents[i]);
    }
    return {};
  };
  co_return co_await parse_on_pool(rt, size_of(contents), std::move(work));
}

// Decodes the contents of the files from `begin` on into the set's rows of the same numbers.
Task<Status> decode_some(runtime::Runtime& rt, Dataset& set, const std::vector<PictureFile>& files,
                         std::size_t begin, const std::vector<Bytes>& contents) {
  const auto elems = static_cast<std::size_t>(set.sample_elems());
  std::vector<Status> statuses(contents.size());
  const auto decode = [&](std::int64_t first, std::int64_t last, int) {
    for (auto i = static_cast<std::size_t>(first); i < static_cast<std::size_t>(last); ++i) {
      const auto picture =
          decode_image(contents[i], files[begin + i].path, static_cast<int>(set.sample_shape[0]));
      statuses[i] = picture.status();
      if (picture.ok())
        fit_picture(*picture, set.sample_shape[1], set.sample_shape[2],
                    set.pixels.writable().subspan((begin + i) * elems, elems));
    }
  };
  const auto count = static_cast<std::int64_t>(contents.size());
  if (rt.is_phantom()) {
    decode(0, count, 0);
  } else {
    const auto num_bytes = static_cast<double>(size_of(contents));
    const cost::OpCost work{.flops = 200.0 * num_bytes, .bytes = 30.0 * num_bytes};
    co_await rt.compute(
        work, [&](runtime::ComputeContext& context) { context.parallel_for(count, decode); },
        rt.compute_threads(), "decode pictures");
  }
  for (const Status& status : statuses) TR_CO_RETURN_IF_ERROR(status);
  co_return Status();
}

// Reads every file, kFilesAtOnce at a time, and names the set: what the files hold, in which order, and the
// shape. `decodes`: fills pixels and labels on the way, which costs some fifty times as much as the name.
Task<Result<std::string>> read_all(runtime::Runtime& rt, Dataset& set, const std::vector<PictureFile>& files,
                                   bool decodes) {
  Sha256 sum;
  sum.update(fmt::format("pictures 1 {}\n", set.sample_shape.to_string()));
  if (decodes) set.pixels.resize(files.size() * static_cast<std::size_t>(set.sample_elems()));
  for (std::size_t begin = 0; begin < files.size(); begin += kFilesAtOnce) {
    const std::size_t end = std::min(begin + kFilesAtOnce, files.size());
    TR_CO_ASSIGN_OR_RETURN(const std::vector<Bytes> contents, co_await read_some(rt, files, begin, end));
    TR_CO_RETURN_IF_ERROR(co_await hash_some(rt, sum, files, begin, contents));
    if (decodes) TR_CO_RETURN_IF_ERROR(co_await decode_some(rt, set, files, begin, contents));
  }
  for (std::size_t i = 0; decodes && i < files.size(); ++i) set.labels.push_back(files[i].label);
  co_return sum.hex_digest();
}

// Fills pixels and labels from the cache or by decoding; what was decoded goes to the cache. Files are read
// once, unless the cache has rows of another set of as many images.
Task<Status> fill_rows(runtime::Runtime& rt, Dataset& set, const std::vector<PictureFile>& files,
                       std::string cache_dir) {
  bool may_be_cached = false;
  if (!cache_dir.empty()) may_be_cached = co_await may_have_rows(rt, cache_dir, set);
  TR_CO_ASSIGN_OR_RETURN(std::string key, co_await read_all(rt, set, files, !may_be_cached));
  bool found = false;
  if (may_be_cached) found = co_await read_rows_cache(rt, cache_dir, key, set);
  if (may_be_cached && !found) {
    TR_CO_ASSIGN_OR_RETURN(key, co_await read_all(rt, set, files, true));
  }
  set.content_sha256 = named_content_sha256(set, fmt::format("{} {} {}", key, set.num_train, set.num_test));
  if (cache_dir.empty() || found) co_return Status();
  const Status written = co_await write_rows_cache(rt, cache_dir, key, set);
  if (!written.ok()) rt.log(fmt::format("the decoded images are not cached: {}", written.message()));
  co_return Status();
}

Result<Shape> picture_shape(const DataSpec& spec) {
  const std::string written = spec.options.text(kSampleShape);
  if (written.empty())
    return error(Code::kInvalid, "[data] kind 'images' needs a shape like 3x64x64: channels, height, width");
  TR_ASSIGN_OR_RETURN(const Shape shape, parse_sample_shape(written));
  if (shape.rank() != 3 || (shape[0] != 1 && shape[0] != 3) || shape[1] > 8192 || shape[2] > 8192)
    return error(Code::kInvalid,
                 "[data] shape of images: got {}, expected 1 or 3 channels and at most 8192 x 8192", written);
  return shape;
}

Task<Loaded> load(runtime::Runtime& rt, const DataSpec& spec) {
  auto set = std::make_shared<Dataset>();
  set->name = "images";
  set->source = spec.path;
  TR_CO_ASSIGN_OR_RETURN(set->sample_shape, picture_shape(spec));
  auto top = co_await folders_in(rt, spec.path);
  if (!top.ok()) co_return top.status();
  const auto has = [&](std::string_view name) { return std::ranges::find(*top, name) != top->end(); };
  const bool parts = has("train");
  std::vector<PictureFile> files;
  const std::string train_path = parts ? spec.path + "/train" : spec.path;
  TR_CO_RETURN_IF_ERROR(co_await list_part(rt, train_path, set->class_names, true, files));
  set->num_train = static_cast<std::int64_t>(files.size());
  if (files.empty())
    co_return error(Code::kNotFound, "[data] {}: no folders with images in it; expected one folder per class",
                    spec.path);
  const std::string test = has("test") ? "test" : has("val") ? "val" : "";
  const std::string test_path = spec.path + "/" + test;
  if (parts && !test.empty())
    TR_CO_RETURN_IF_ERROR(co_await list_part(rt, test_path, set->class_names, false, files));
  set->num_test = static_cast<std::int64_t>(files.size()) - set->num_train;
  set->num_classes = static_cast<int>(set->class_names.size());
  const auto elems = static_cast<std::size_t>(set->sample_elems());
  if (files.size() > kMaxSetBytes / elems)
    co_return error(Code::kExhausted,
                    "[data] {}: {} images of {} do not fit into memory; take a smaller shape", spec.path,
                    files.size(), set->sample_shape.to_string());
  TR_CO_RETURN_IF_ERROR(co_await fill_rows(rt, *set, files, spec.cache_dir));
  co_return set;
}

std::optional<OptionFault> check(const OptionValues& options) {
  const std::string written = options.text(kSampleShape);
  if (written.empty()) return OptionFault{kSampleShape.name, "channels, height and width, like 3x64x64"};
  return check_sample_shape(options);
}

// The classes are folders.
KnownSamples known(const OptionValues& options) {
  return {*parse_sample_shape(options.text(kSampleShape)), 0, "of data.shape"};
}

constexpr OptionSpec kOptions[] = {kSampleShape};

}  // namespace

extern const DataKind kImages{
    .name = "images",
    .doc = "A folder of JPEG and PNG images, a folder per class, perhaps below train/ and test/ or val/.",
    .needs_path = true,
    .statistics = Statistics::kBytes,
    .options = kOptions,
    .check = check,
    .known = known,
    .load = load};

}  // namespace trireme::data
