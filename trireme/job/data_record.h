// What a checkpoint keeps of the data it was trained on: shape, classes, normalization, parts and the hash.
// With it a model reads other samples, names classes and notices data that changed, without the data itself.
#pragma once

#include <memory>
#include <string>

#include "trireme/base/json.h"
#include "trireme/data/dataset.h"
#include "trireme/job/job.h"

namespace trireme::job {

// `path`: where the data is, from any working directory. Layout: docs/format_checkpoint.md section 1.
Json data_record(const data::Dataset& data, const Job& job, const std::string& path);

struct TrainedOn {
  std::shared_ptr<const data::Dataset> data;                     // without samples: counts of parts are 0
  std::string path;                                              // empty: not known
  std::int64_t num_train = 0, num_test = 0, num_validation = 0;  // samples of the parts
};
Result<TrainedOn> data_from_record(const Json& record);

// `data` normalized and with classes numbered as in training; the same pointer where it is so already.
// kInvalid: samples of another shape, or a class that the model does not know.
Result<std::shared_ptr<const data::Dataset>> as_trained(std::shared_ptr<const data::Dataset> data,
                                                        const data::Dataset& trained);

// Both hashes and the numbers of samples, where data changed: "SHA-256 1f3a..., now 9b20..., 150 training
// samples, now 160". Empty: it did not change, or that is not known.
std::string data_change(const TrainedOn& trained, const data::Dataset& now);
// The same where only the hash is known.
std::string data_change(const std::string& trained_sha256, const data::Dataset& now);

}  // namespace trireme::job
