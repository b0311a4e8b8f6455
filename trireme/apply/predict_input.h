// What a model is asked about: a part of its data set, or files of the user, read and normalised as training
// samples were.
#pragma once

#include <string>
#include <vector>

#include "trireme/apply/load_model.h"
#include "trireme/engine/evaluator.h"

namespace trireme::apply {

struct Samples {
  std::shared_ptr<const data::Dataset> data;
  engine::Part part = engine::Part::kTest;  // of `data`
  std::vector<std::string> names;           // of each sample: its file; empty: numbers from 0
  std::vector<std::int32_t> labels;         // of each sample, -1: not known; empty: none is known
  std::vector<std::string> notes;           // what the user should know

  std::int64_t count() const { return engine::range_of(*data, part).count; }
  std::string name_of(std::int64_t index) const;
  std::int32_t label_of(std::int64_t index) const;
};

Samples samples_of_part(const LoadedModel& model, engine::Part part);

// `path`: a PNG or JPEG file, a folder with such files (also in its folders), an .npy file with one sample or
// several, or a .csv table with or without the label column. Pictures of another size are scaled and cut as
// the loader does, and a note says so. kInvalid: of another shape or type than the training samples.
runtime::Task<Result<Samples>> read_samples(runtime::Runtime& rt, const LoadedModel& model, std::string path);

}  // namespace trireme::apply
