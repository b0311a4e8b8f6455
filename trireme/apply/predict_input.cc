#include "trireme/apply/predict_input.h"

#include <algorithm>

#include "trireme/data/options.h"
#include "trireme/data/read/csv.h"
#include "trireme/data/read/image.h"
#include "trireme/data/read/npy.h"
#include "trireme/data/standardise.h"

namespace trireme::apply {
namespace {

using data::Dataset;
using runtime::Runtime;
using runtime::Task;

constexpr int kMaxFolderDepth = 4;
constexpr std::size_t kMaxInputBytes = std::size_t{8} << 30;

// A set without samples that normalises as the training set does.
std::shared_ptr<Dataset> like(const Dataset& trained, const std::string& path) {
  auto set = std::make_shared<Dataset>();
  set->name = "input";
  set->source = path;
  set->sample_shape = trained.sample_shape;
  set->dtype = trained.dtype;
  set->label_kind = data::Labels::kNone;
  set->num_classes = trained.num_classes;
  set->class_names = trained.class_names;
  set->mean = trained.mean;
  set->scale = trained.scale;
  set->channel_mean = trained.channel_mean;
  set->channel_scale = trained.channel_scale;
  return set;
}

Task<Status> list_pictures(Runtime& rt, std::string folder, int depth, std::vector<std::string>& out) {
  auto listed = co_await rt.files().list(folder);
  if (!listed.ok()) co_return listed.status();
  for (const std::string& name : *listed) {
    if (name.starts_with(".")) continue;
    const std::string path = folder + "/" + name;
    if (data::is_image_name(name)) {
      out.push_back(path);
      continue;
    }
    auto below = co_await rt.files().list(path);
    if (below.ok() && depth < kMaxFolderDepth)
      TR_CO_RETURN_IF_ERROR(co_await list_pictures(rt, path, depth + 1, out));
  }
  co_return Status();
}

Task<Result<Samples>> read_pictures(Runtime& rt, const LoadedModel& model, std::vector<std::string> paths,
                                    std::string source) {
  const Shape& shape = model.data->sample_shape;
  if (model.data->dtype != DType::kU8 || shape.rank() != 3 || (shape[0] != 1 && shape[0] != 3))
    co_return error(
        Code::kInvalid,
        "[predict] {}: the model reads {}{}, not images; give an .npy or .csv file with such samples", source,
        dtype_name(model.data->dtype), shape.to_string());
  const auto set = like(*model.data, source);
  const auto elems = static_cast<std::size_t>(set->sample_elems());
  if (paths.size() > kMaxInputBytes / elems)
    co_return error(Code::kExhausted, "[predict] {}: {} images at once; give a smaller folder", source,
                    paths.size());
  set->pixels.resize(paths.size() * elems);
  std::size_t resized = 0;
  std::string first;
  for (std::size_t i = 0; i < paths.size(); ++i) {
    const Result<Bytes> file = co_await rt.files().read(paths[i]);
    if (!file.ok()) co_return file.status();
    const Result<data::Picture> picture = data::decode_image(*file, paths[i], static_cast<int>(shape[0]));
    if (!picture.ok()) co_return picture.status();
    data::fit_picture(*picture, shape[1], shape[2], set->pixels.writable().subspan(i * elems, elems));
    if (picture->height == shape[1] && picture->width == shape[2]) continue;
    if (resized++ == 0) first = fmt::format("{}, {} x {}", paths[i], picture->height, picture->width);
  }
  set->num_test = static_cast<std::int64_t>(paths.size());
  Samples out;
  if (resized > 0)
    out.notes.push_back(
        fmt::format("{} of {} images are not {} x {} (the first: {}) and were scaled and cropped to it",
                    resized, paths.size(), shape[1], shape[2], first));
  out.data = set;
  out.names = std::move(paths);
  co_return out;
}

// Tables are standardised by the training rows.
void standardise_as_trained(const LoadedModel& model, std::vector<float>& features) {
  if (!model.data->standard.mean.empty()) data::standardise(model.data->standard, features);
}

// [n, sample...], one sample, or either without the channel of grey pictures.
std::int64_t num_samples_in(const Shape& got, const Shape& sample) {
  std::vector<std::int64_t> want(sample.dims().begin(), sample.dims().end());
  const std::vector<std::int64_t> dims(got.dims().begin(), got.dims().end());
  for (int pass = 0; pass < 2; ++pass) {
    if (dims == want) return 1;
    if (dims.size() == want.size() + 1 && std::equal(want.begin(), want.end(), dims.begin() + 1))
      return dims[0];
    if (want.size() != 3 || want[0] != 1) return 0;
    want.erase(want.begin());
  }
  return 0;
}

Task<Result<Samples>> read_array(Runtime& rt, const LoadedModel& model, std::string path) {
  const Result<Bytes> file = co_await rt.files().read(path);
  if (!file.ok()) co_return file.status();
  TR_CO_ASSIGN_OR_RETURN(data::FileArray array, data::parse_npy(*file, path));
  // Where training read such values as bytes; others might be scaled to 0 to 1.
  if (model.job.data.options.text(data::kPixelForm) == "bytes")
    if (std::optional<data::FileArray> bytes = data::to_byte_array(array)) array = std::move(*bytes);
  const auto set = like(*model.data, path);
  set->num_test = num_samples_in(array.type.shape, set->sample_shape);
  if (set->num_test == 0)
    co_return error(Code::kInvalid, "[predict] {}: got {}, expected samples of {}: [n, ...] or one of them",
                    path, array.type.to_string(), set->sample_shape.to_string());
  if (set->dtype == DType::kU8 && array.type.dtype != DType::kU8)
    co_return error(Code::kInvalid, "[predict] {}: got {}, expected bytes (u8) as the training samples are",
                    path, array.type.to_string());
  if (set->dtype == DType::kU8) {
    const auto* from = reinterpret_cast<const std::uint8_t*>(array.bytes.data());
    set->pixels.append({from, array.bytes.size()});
  } else {
    TR_CO_ASSIGN_OR_RETURN(set->features, data::to_floats(array, path));
    standardise_as_trained(model, set->features);
  }
  Samples out;
  out.data = set;
  co_return out;
}

// With the label column of the job where the file has it, without where it has one column less.
Result<data::CsvTable> parse_table(std::string_view text, const std::string& path, const LoadedModel& model) {
  const job::Job::Data& d = model.job.data;
  data::CsvOptions options;
  options.label = d.kind == "csv" ? d.options.text(data::kLabel) : "none";
  options.header = d.options.text(data::kHeader);
  options.separator = data::separator_of(d.options.text(data::kSeparator)).value_or(',');
  const auto fits = [&](const Result<data::CsvTable>& table) {
    return table.ok() && static_cast<std::int64_t>(table->columns.size()) == model.data->sample_elems();
  };
  Result<data::CsvTable> labelled = data::parse_csv(text, path, options);
  if (fits(labelled)) return labelled;
  options.label = "none";
  Result<data::CsvTable> bare = data::parse_csv(text, path, options);
  if (fits(bare)) return bare;
  // Another table: its last column may be a label of its own.
  options.label = "";
  const Result<data::CsvTable> other = data::parse_csv(text, path, options);
  if (!bare.ok() && !labelled.ok() && !other.ok()) return labelled;
  const data::CsvTable& table = bare.ok() ? *bare : labelled.ok() ? *labelled : *other;
  return error(Code::kInvalid,
               "[predict] {}: {} {}, the model was trained on {}; give the columns of the training samples, "
               "with or without the label",
               path, table.columns.size(), bare.ok() ? "columns" : "features", model.data->sample_elems());
}

Task<Result<Samples>> read_table(Runtime& rt, const LoadedModel& model, std::string path) {
  if (model.data->dtype != DType::kF32)
    co_return error(Code::kInvalid,
                    "[predict] {}: the model reads {}{}, not rows of a table; give images or "
                    "an .npy file",
                    path, dtype_name(model.data->dtype), model.data->sample_shape.to_string());
  const Result<Bytes> file = co_await rt.files().read(path);
  if (!file.ok()) co_return file.status();
  TR_CO_ASSIGN_OR_RETURN(data::CsvTable table, parse_table(as_text(*file), path, model));
  const auto set = like(*model.data, path);
  set->num_test = table.num_rows;
  set->features = std::move(table.features);
  standardise_as_trained(model, set->features);
  Samples out;
  for (const std::string& label : table.labels) {
    const auto at = std::find(set->class_names.begin(), set->class_names.end(), label);
    out.labels.push_back(
        at == set->class_names.end() ? -1 : static_cast<std::int32_t>(at - set->class_names.begin()));
  }
  out.data = set;
  co_return out;
}

}  // namespace

std::string Samples::name_of(std::int64_t index) const {
  return names.empty() ? fmt::format("{}", index) : names[static_cast<std::size_t>(index)];
}

std::int32_t Samples::label_of(std::int64_t index) const {
  if (!labels.empty()) return labels[static_cast<std::size_t>(index)];
  return data->label_kind == data::Labels::kClass
             ? data->label_of(engine::range_of(*data, part).first + index)
             : -1;
}

Samples samples_of_part(const LoadedModel& model, engine::Part part) {
  Samples out;
  out.data = model.data;
  out.part = part;
  return out;
}

Task<Result<Samples>> read_samples(Runtime& rt, const LoadedModel& model, std::string path) {
  if (path.ends_with(".npy")) co_return co_await read_array(rt, model, path);
  if (path.ends_with(".csv")) co_return co_await read_table(rt, model, path);
  std::vector<std::string> pictures;
  if (data::is_image_name(path)) {
    pictures.push_back(path);
    co_return co_await read_pictures(rt, model, std::move(pictures), path);
  }
  const auto listed = co_await rt.files().list(path);
  if (!listed.ok())
    co_return error(
        Code::kInvalid,
        "[predict] --input {}: expected a .png, .jpg or .jpeg image, a folder of them, an .npy or a "
        ".csv file",
        path);
  TR_CO_RETURN_IF_ERROR(co_await list_pictures(rt, path, 0, pictures));
  if (pictures.empty())
    co_return error(Code::kInvalid, "[predict] --input {}: no .png, .jpg or .jpeg file in this folder", path);
  co_return co_await read_pictures(rt, model, std::move(pictures), path);
}

}  // namespace trireme::apply
