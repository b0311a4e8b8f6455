#include "trireme/job/assume_input.h"

#include "trireme/data/source.h"
#include "trireme/job/job_parts.h"

namespace trireme::job {
namespace {

using model::ModelInput;

struct Known {
  std::optional<Shape> shape;
  int classes = 0;  // 0: not known
  std::string from;
};

// What the kind of data fixes, whatever the files hold.
Result<Known> of_data(const Job& job) {
  const Job::Data& d = job.data;
  Known known;
  if (d.kind == "digits") return Known{Shape{1, 28, 28}, 10, "of the built-in digits"};
  if (d.kind == "cifar") {
    const int classes = d.label == "fine" ? 100 : d.label == "coarse" ? 20 : 10;
    return Known{Shape{3, 32, 32}, classes, "of CIFAR's format"};
  }
  if (d.kind == "text") {
    if (d.context < 1)
      return error(Code::kInvalid, "[job] data.context: got {}, expected at least 1", d.context);
    return Known{Shape{d.context}, d.tokens == "bytes" ? 256 : 0, "of data.context"};
  }
  if (d.kind == "synthetic" || (d.kind == "images" && !d.shape.empty())) {
    TR_ASSIGN_OR_RETURN(known.shape, data::parse_sample_shape(d.shape.empty() ? "1x28x28" : d.shape));
    if (d.kind == "synthetic")
      known.classes = static_cast<int>(std::clamp<std::int64_t>(d.classes, 0, 1 << 24));
    known.from = "of data.shape";
  }
  return known;
}

}  // namespace

Result<AssumedInput> assume_input(const Job& job, std::string_view shape, std::int64_t classes) {
  AssumedInput out;
  out.input.task = task_of(job);
  TR_ASSIGN_OR_RETURN(const Known known, of_data(job));
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
