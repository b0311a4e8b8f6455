// A folder as CIFAR comes in binary form: data_batch_1.bin to data_batch_5.bin and test_batch.bin (CIFAR-10),
// or train.bin and test.bin (CIFAR-100), with the names of the classes in text files.
#include <algorithm>

#include "trireme/data/options.h"
#include "trireme/data/read/cifar.h"
#include "trireme/data/read/load.h"

namespace trireme::data {
namespace {

using runtime::Task;

std::vector<std::string> lines_of(std::string_view text) {
  std::vector<std::string> lines;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (!line.empty()) lines.emplace_back(line);
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return lines;
}

Task<Status> append_file(runtime::Runtime& rt, Dataset& set, CifarKind kind, std::string path) {
  Result<Bytes> file = co_await read_unpacked(rt, path);
  if (!file.ok()) co_return file.status();
  Function<Status()> work = [&] { return append_cifar(set, kind, *file, path); };
  co_return co_await parse_on_pool(rt, file->size(), std::move(work));
}

Result<CifarKind> kind_of(bool ten, const DataSpec& spec) {
  if (ten) return CifarKind::k10;
  const std::string label = spec.options.text(kLabel);
  if (label.empty() || label == "fine") return CifarKind::k100Fine;
  if (label == "coarse") return CifarKind::k100Coarse;
  return error(Code::kInvalid, "[data] label of CIFAR-100: got '{}', expected fine or coarse", label);
}

Task<Loaded> load(runtime::Runtime& rt, const DataSpec& spec) {
  auto listed = co_await rt.files().list(spec.path);
  if (!listed.ok()) co_return listed.status();
  std::vector<std::string> train, test;
  for (const std::string& name : *listed) {
    if (name == "train.bin" || (name.starts_with("data_batch_") && name.ends_with(".bin")))
      train.push_back(name);
    if (name == "test.bin" || name == "test_batch.bin") test.push_back(name);
  }
  if (train.empty())
    co_return error(Code::kNotFound,
                    "[data] {}: neither data_batch_1.bin (CIFAR-10) nor train.bin (CIFAR-100) in it",
                    spec.path);
  const bool ten = train[0] != "train.bin";
  TR_CO_ASSIGN_OR_RETURN(const CifarKind kind, kind_of(ten, spec));
  auto set = std::make_shared<Dataset>();
  set->name = "cifar";
  set->source = spec.path;
  set->sample_shape = {3, 32, 32};
  set->num_classes = num_classes(kind);
  for (const std::string& name : train) {
    const std::string path = spec.path + "/" + name;
    TR_CO_RETURN_IF_ERROR(co_await append_file(rt, *set, kind, path));
  }
  set->num_train = static_cast<std::int64_t>(set->labels.size());
  for (const std::string& name : test) {
    const std::string path = spec.path + "/" + name;
    TR_CO_RETURN_IF_ERROR(co_await append_file(rt, *set, kind, path));
  }
  set->num_test = static_cast<std::int64_t>(set->labels.size()) - set->num_train;
  const std::string names_file = ten                           ? "batches.meta.txt"
                                 : kind == CifarKind::k100Fine ? "fine_label_names.txt"
                                                               : "coarse_label_names.txt";
  if (std::ranges::find(*listed, names_file) != listed->end()) {
    const std::string path = spec.path + "/" + names_file;
    Result<Bytes> file = co_await rt.files().read(path);
    if (!file.ok()) co_return file.status();
    set->class_names = lines_of(as_text(*file));
    if (static_cast<int>(set->class_names.size()) != set->num_classes)
      co_return error(Code::kCorrupt, "[data] {}/{}: got {} names, expected {}", spec.path, names_file,
                      set->class_names.size(), set->num_classes);
  }
  co_return set;
}

// Which of the two it is, only the files say; a label is of CIFAR-100.
KnownSamples known(const OptionValues& options) {
  const std::string label = options.text(kLabel);
  const int classes = label == "fine" ? 100 : label == "coarse" ? 20 : 10;
  return {Shape{3, 32, 32}, classes, "of CIFAR's format"};
}

constexpr OptionSpec kOptions[] = {kLabel};

}  // namespace

extern const DataKind kCifar{.name = "cifar",
                             .doc = "A folder with CIFAR-10 or CIFAR-100 in binary form.",
                             .needs_path = true,
                             .statistics = Statistics::kBytes,
                             .options = kOptions,
                             .known = known,
                             .load = load};

}  // namespace trireme::data
