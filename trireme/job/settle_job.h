// What a job leaves open is picked by its data: the model, the batch, how long to train. Jobs on the built-in
// digits and on synthetic samples have their defaults.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "trireme/data/dataset.h"
#include "trireme/job/job.h"

namespace trireme::job {

// Picks what is not in job.given_at, notes the keys in job.picked, and lowers a batch that is larger than the
// training part. Returns what the user should know, a sentence each; what was picked is the first one.
// Pure: the same job and data, the same picks.
std::vector<std::string> settle_job(Job& job, const data::Dataset& data);

// What can be picked without the data, which is the model with its optimizer and the batch of texts: by the
// shape of a sample where that is known, else by what every sample of this kind of data is.
void settle_model(Job& job, const std::optional<Shape>& shape);

// Those of the keys that settle_job may pick which the job does not give.
std::vector<std::string_view> open_keys(const Job& job);

// A run that began with `before` goes on as it began, where that is what was asked for: by an older version,
// which picked nothing, or with another train.epochs or train.steps only. `asked` is the job before settling.
// True: the job has changed.
bool keep_as_begun(Job& job, const Job& asked, const Job& before);

}  // namespace trireme::job
