// What a job's model would read, as far as that can be known without its data.
#pragma once

#include <string>
#include <string_view>

#include "trireme/job/job.h"
#include "trireme/model/zoo.h"

namespace trireme::job {

struct AssumedInput {
  model::ModelInput input;
  std::string from;  // for people: "of the built-in digits", "as published for resnet50"
};
// What the model would read, without looking at the data: what is given ("3x64x64", classes > 0), else what
// the kind of data fixes, else what the model of the zoo was published with. kInvalid where nobody knows.
Result<AssumedInput> assume_input(const Job& job, std::string_view shape, std::int64_t classes);

}  // namespace trireme::job
