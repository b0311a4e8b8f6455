// Where samples come from: one loader per kind, all behind make_dataset.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>

#include "trireme/base/option_spec.h"
#include "trireme/data/dataset.h"

namespace trireme::data {

// What a job says about its data.
struct DataSpec {
  std::string kind = "digits";
  std::string path = {};                         // a file or a folder
  std::uint64_t seed = 2024;                     // what is drawn, and which samples are held out
  std::int64_t limit_train = 0, limit_test = 0;  // > 0: only the first samples of each part
  double test = 0.1;           // share held out for testing where the source has no test part
  double validation = 0;       // share of the training samples set apart
  bool labels = true;          // false: samples are their own targets
  Augment augment = {};        // of training samples
  OptionValues options = {};   // a kind reads those that its row lists
  std::string cache_dir = {};  // where digits and decoded images may be kept; empty: nowhere
};

// What is normalised by mean and deviation of the training samples.
enum class Statistics : std::uint8_t { kNone, kBytes, kAll };

// What a sample is, where nobody has read one yet.
enum class SampleForm : std::uint8_t { kImage, kRow, kTokens };
// What every sample of a kind has in common, whatever the files hold.
struct KnownSamples {
  std::optional<Shape> shape = {};
  int classes = 0;        // 0: not known
  std::string from = {};  // where it is known from: "of CIFAR's format"
};

// Rows are in the files of their loaders.
struct DataKind {
  const char* name = "";
  const char* doc = "";  // what `path` is
  bool needs_path = false;
  Statistics statistics = Statistics::kNone;
  SampleForm form = SampleForm::kImage;
  std::span<const OptionSpec> options = {};
  // Null: the ranges of the options say everything.
  std::optional<OptionFault> (*check)(const OptionValues& options) = nullptr;
  // Null: nothing is known. The options have passed their ranges and `check`.
  KnownSamples (*known)(const OptionValues& options) = nullptr;
  runtime::Task<Result<std::shared_ptr<Dataset>>> (*load)(runtime::Runtime& rt,
                                                          const DataSpec& spec) = nullptr;
};
std::span<const DataKind> data_kinds();
// The row called `name`, or null.
const DataKind* find_kind(std::string_view name);

// Loads, holds out, sets apart, limits, normalises and checks. Errors name the file and the offset; an
// unknown kind lists those that exist.
runtime::Task<Result<std::shared_ptr<const Dataset>>> make_dataset(runtime::Runtime& rt, DataSpec spec);

// "3x64x64" as a shape.
Result<Shape> parse_sample_shape(std::string_view text);

}  // namespace trireme::data
