// Where samples come from: one loader per kind, all behind make_dataset.
#pragma once

#include <memory>
#include <span>
#include <string>

#include "trireme/data/dataset.h"

namespace trireme::data {

// What a job says about its data. A kind reads the fields that its row names; the rest are for all kinds.
struct DataSpec {
  std::string kind = "digits";
  std::string path = {};                         // a file or a folder
  std::uint64_t seed = 2024;                     // what is drawn, and which samples are held out
  std::int64_t limit_train = 0, limit_test = 0;  // > 0: only the first samples of each part
  double test = 0.1;      // share held out for testing where the source has no test part
  double validation = 0;  // share of the training samples set apart
  bool labels = true;     // false: samples are their own targets
  Augment augment = {};   // of training samples

  std::string shape = {};          // images, synthetic: "3x64x64"
  std::string label = {};          // csv: column; cifar: "fine" or "coarse"
  std::string header = "auto";     // csv: "yes", "no", "auto"
  std::string separator = ",";     // csv
  std::string pixels = {};         // npy: "bytes", "floats", or not said: floats
  std::string tokens = "chars";    // text: "chars" or "bytes"
  std::int64_t context = 128;      // text: tokens of a sample
  std::int64_t stride = 0;         // text: between training windows; 0: context
  std::int64_t classes = 10;       // synthetic
  std::int64_t num_train = 10000;  // synthetic
  std::int64_t num_test = 1000;    // synthetic
  std::string cache_dir = {};      // digits; empty: no cache
};

// What is normalised by mean and deviation of the training samples.
enum class Statistics : std::uint8_t { kNone, kBytes, kAll };

// Rows are in the files of their loaders.
struct DataKind {
  const char* name = "";
  const char* doc = "";  // what `path` is and which fields are read
  bool needs_path = false;
  Statistics statistics = Statistics::kNone;
  runtime::Task<Result<std::shared_ptr<Dataset>>> (*load)(runtime::Runtime& rt,
                                                          const DataSpec& spec) = nullptr;
};
std::span<const DataKind> data_kinds();

// Loads, holds out, sets apart, limits, normalises and checks. Errors name the file and the offset; an
// unknown kind lists those that exist.
runtime::Task<Result<std::shared_ptr<const Dataset>>> make_dataset(runtime::Runtime& rt, DataSpec spec);

// "3x64x64" as a shape.
Result<Shape> parse_sample_shape(std::string_view text);

}  // namespace trireme::data
