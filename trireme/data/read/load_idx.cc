// A folder as MNIST comes: train-images-idx3-ubyte, train-labels-idx1-ubyte, t10k-..., each perhaps gzipped.
#include "trireme/data/read/idx.h"
#include "trireme/data/read/load.h"

namespace trireme::data {
namespace {

using runtime::Task;

Task<Status> append_pair(runtime::Runtime& rt, Dataset& set, std::string samples_path,
                         std::string labels_path) {
  Result<Bytes> samples_file = co_await read_unpacked(rt, samples_path);
  if (!samples_file.ok()) co_return samples_file.status();
  Result<Bytes> labels_file = Bytes();
  if (!labels_path.empty()) labels_file = co_await read_unpacked(rt, labels_path);
  if (!labels_file.ok()) co_return labels_file.status();
  Function<Status()> work = [&]() -> Status {
    TR_ASSIGN_OR_RETURN(const FileArray samples, parse_idx(*samples_file, samples_path));
    samples_file = Bytes();
    LabelledArrays part{&samples, nullptr, samples_path, labels_path};
    FileArray labels;
    if (!labels_path.empty()) {
      TR_ASSIGN_OR_RETURN(labels, parse_idx(*labels_file, labels_path));
      part.labels = &labels;
    }
    return append_arrays(set, part);
  };
  co_return co_await parse_on_pool(rt, samples_file->size(), std::move(work));
}

// Samples of the part, which `marks` tell by its file names, go behind what the set has. False: no such
// files.
Task<Result<bool>> append_part(runtime::Runtime& rt, Dataset& set, const std::vector<std::string>& names,
                               const std::string& folder, std::string_view mark) {
  TR_CO_ASSIGN_OR_RETURN(const std::string images, find_name(names, {mark, "images"}, folder));
  TR_CO_ASSIGN_OR_RETURN(const std::string labels, find_name(names, {mark, "labels"}, folder));
  if (images.empty() && labels.empty()) co_return false;
  if (images.empty())
    co_return error(Code::kNotFound, "[data] {}: {} has no file of images beside it", folder, labels);
  const std::string images_path = folder + "/" + images;
  const std::string labels_path = labels.empty() ? "" : folder + "/" + labels;
  TR_CO_RETURN_IF_ERROR(co_await append_pair(rt, set, images_path, labels_path));
  co_return true;
}

std::int64_t rows_in(const Dataset& set) {
  const std::size_t values = set.dtype == DType::kU8 ? set.pixels.size() : set.features.size();
  return static_cast<std::int64_t>(values) / set.sample_elems();
}

Task<Loaded> load(runtime::Runtime& rt, const DataSpec& spec) {
  auto listed = co_await rt.files().list(spec.path);
  if (!listed.ok()) co_return listed.status();
  auto set = std::make_shared<Dataset>();
  set->name = "idx";
  set->source = spec.path;
  TR_CO_ASSIGN_OR_RETURN(const bool train, co_await append_part(rt, *set, *listed, spec.path, "train"));
  if (!train)
    co_return error(Code::kNotFound,
                    "[data] {}: no file named like train-images-idx3-ubyte or train-images-idx3-ubyte.gz",
                    spec.path);
  set->num_train = rows_in(*set);
  for (const std::string_view mark : {"t10k", "test"}) {
    if (rows_in(*set) > set->num_train) break;
    TR_CO_ASSIGN_OR_RETURN(const bool found, co_await append_part(rt, *set, *listed, spec.path, mark));
    (void)found;
  }
  set->num_test = rows_in(*set) - set->num_train;
  set->num_classes = 1;
  for (const std::int32_t label : set->labels) set->num_classes = std::max(set->num_classes, label + 1);
  co_return set;
}

}  // namespace

extern const DataKind kIdx{
    .name = "idx",
    .doc = "A folder of IDX files as MNIST has them, gzip or not: train and t10k or test, images and labels.",
    .needs_path = true,
    .statistics = Statistics::kBytes,
    .load = load};

}  // namespace trireme::data
