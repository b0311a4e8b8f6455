#include "trireme/job/assume_input.h"

#include "trireme/data/source.h"
#include "trireme/job/job_checker.h"
#include "trireme/job/job_parts.h"

namespace trireme::job {
namespace {

using model::ModelInput;

// What the kind of data fixes, whatever the files hold.
Result<data::KnownSamples> known_samples(const Job& job) {
  const data::DataKind* kind = data::find_kind(job.data.kind);
  if (kind == nullptr || kind->known == nullptr) return data::KnownSamples();
  const OptionValues& given = job.data.options;
  JobChecker c(job);
  check_ranges(c, job, OptionsOf::kData);
  if (!c.status.ok()) return c.status;
  if (const auto fault = kind->check == nullptr ? std::nullopt : kind->check(given)) {
    // A job that is looked at before it is complete may lack what its kind needs.
    const OptionValue* value = given.find(fault->option);
    if (value == nullptr || *value == find_option(kind->options, fault->option)->initial())
      return data::KnownSamples();
    c.expect(false, fmt::format("data.{}", fault->option), fault->expected);
    return c.status;
  }
  return kind->known(given);
}

}  // namespace

Result<AssumedInput> assume_input(const Job& job, std::string_view shape, std::int64_t classes) {
  AssumedInput out;
  out.input.task = task_of(job);
  TR_ASSIGN_OR_RETURN(const data::KnownSamples known, known_samples(job));
  std::optional<ModelInput> published;
  if (job.model.layers.empty()) {
    const auto row = model::find_model(job.model.name);
    if (!row.ok()) return Status(Code::kInvalid, row.status().message());
    published = (*row)->input();
  }
  if (!shape.empty()) {
    TR_ASSIGN_OR_RETURN(out.input.sample_shape, data::parse_sample_shape(shape));
    out.from = "as given";
  } else if (known.shape) {
    out.input.sample_shape = *known.shape;
    out.from = known.from;
  } else if (published) {
    out.input.sample_shape = published->sample_shape;
    out.from = fmt::format("as published for {}", job.model.name);
  } else {
    return error(Code::kInvalid,
                 "[inspect] the shape of a sample of data.kind '{}' is not known without reading it; say it: "
                 "--shape 3x64x64 --classes 10",
                 job.data.kind);
  }
  const ModelInput fallback = published.value_or(ModelInput{});
  out.input.num_classes = classes > 0         ? static_cast<int>(std::min<std::int64_t>(classes, 1 << 24))
                          : known.classes > 0 ? known.classes
                                              : fallback.num_classes;
  return out;
}

}  // namespace trireme::job
