#include "trireme/job/settle_job.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "trireme/base/units.h"
#include "trireme/data/options.h"
#include "trireme/data/order.h"
#include "trireme/data/source.h"
#include "trireme/job/job_parts.h"
#include "trireme/job/roles.h"

namespace trireme::job {
namespace {

constexpr std::string_view kPickable[] = {
    "data.pixels",      "model.name",           "model.options",
    "train.epochs",     "train.batch",          "train.checkpoint_steps",
    "train.eval_steps", "train.optimizer.kind", "train.optimizer.lr"};

constexpr std::int64_t kSteps = 600;          // enough for a small model to learn
constexpr std::int64_t kMostEpochs = 200;     // of very small sets
constexpr double kMostValues = 1e9;           // that pass through the model, where 4 epochs are fewer
constexpr std::int64_t kTextBatch = 32;       // a sample is a window of many tokens
constexpr std::int64_t kBatchesPerEpoch = 8;  // of sets too small for full batches
constexpr std::int64_t kSmallestBatch = 8;
constexpr std::int64_t kEvaluations = 10;  // of a run of more epochs

class Settler {
 public:
  Settler(Job& job, const data::Dataset& data) : job_(job), data_(data) {}

  bool is_open(std::string_view key) const { return !job_.given_at.contains(key); }

  template <typename T, typename U>
  void pick(std::string_view key, T& field, U value) {
    if (!is_open(key) || field == T(value)) return;
    field = T(std::move(value));
    job_.picked.emplace_back(key);
  }

  void pick_model() {
    const Shape& shape = data_.sample_shape;
    if (!is_open("model.name") || !job_.model.layers.empty() || job_.model.task == "reconstruct") return;
    if (data_.dtype == DType::kI32) return pick_language_model();
    // Two poolings halve an image twice.
    const bool image = shape.rank() == 3 && shape[1] >= 4 && shape[2] >= 4;
    if (!image) pick("model.name", job_.model.name, "mlp");
  }

  void pick_pixels() {
    OptionValues& options = job_.data.options;
    if (!data_.holds_bytes || !is_open("data.pixels") || options.has(data::kPixelForm.name)) return;
    options.set(data::kPixelForm.name, "bytes");
    job_.picked.emplace_back("data.pixels");
  }

  void pick_batch() {
    const std::int64_t n = data_.num_train;
    std::int64_t batch = data_.dtype == DType::kI32 ? kTextBatch : job_.train.batch;
    if (n < kBatchesPerEpoch * batch) {
      const double share = static_cast<double>(n) / kBatchesPerEpoch;
      batch = std::int64_t{1} << std::max<std::int64_t>(0, std::llround(std::log2(share)));
      batch = std::max(batch, kSmallestBatch);
    }
    pick("train.batch", job_.train.batch, std::max(std::min(batch, n), shards()));
  }

  void pick_length() {
    const data::BatchCut cut{data_.num_train, job_.train.batch, 1};
    const std::int64_t steps = cut.steps_per_epoch();
    if (job_.train.steps == 0) {
      const double values = static_cast<double>(data_.num_train) * static_cast<double>(data_.sample_elems());
      const auto affordable = static_cast<std::int64_t>(std::min(1e6, kMostValues / values));
      const std::int64_t wanted = std::min({(kSteps + steps - 1) / steps, kMostEpochs, affordable});
      pick("train.epochs", job_.train.epochs, std::max(wanted, job_.train.epochs));
    }
    // Very short epochs are not evaluated and saved one by one.
    const auto picked = std::ranges::find(job_.picked, "train.epochs");
    if (picked == job_.picked.end() || job_.train.epochs <= kEvaluations) return;
    const std::int64_t between = (job_.train.epochs + kEvaluations - 1) / kEvaluations * steps;
    if (job_.train.eval_steps == 0) pick("train.eval_steps", job_.train.eval_steps, between);
    if (job_.train.checkpoint_steps == 0)
      pick("train.checkpoint_steps", job_.train.checkpoint_steps, between);
  }

  // A batch of padding costs as much as one of samples.
  std::string lower_batch() {
    const std::int64_t n = std::max(data_.num_train, shards());
    if (job_.train.batch <= n) return "";
    const std::int64_t asked = std::exchange(job_.train.batch, n);
    job_.picked.emplace_back("train.batch");
    return fmt::format("train.batch = {} is more than the {} training samples; the batch is {}", asked,
                       data_.num_train, n);
  }

  std::string told() const {
    std::string text;
    for (const JobKey& key : job_keys())
      if (std::ranges::find(job_.picked, key.path) != job_.picked.end())
        text += fmt::format("{}{} = {}", text.empty() ? "" : ", ", key.path, value_text(job_, key));
    return text.empty() ? "" : "picked by the data, as the job does not say: " + text;
  }

 private:
  std::int64_t shards() const { return shards_of(job_); }

  // A transformer that a few cores train in minutes; it needs an optimizer of its kind.
  void pick_language_model() {
    pick("model.name", job_.model.name, "char-gpt");
    pick("model.options", job_.model.options, Json{{"layers", 2}, {"width", 128}});
    if (!is_open("train.optimizer.kind")) return;
    pick("train.optimizer.kind", job_.train.optimizer.kind, "adamw");
    pick("train.optimizer.lr", job_.train.optimizer.lr, 0.002);
  }

  Job& job_;
  const data::Dataset& data_;
};

// Options that were given and that the kind of data does not have, in a sentence. No error, since a job may
// try several kinds.
std::string unused_options(const Job& job) {
  const data::DataKind* kind = data::find_kind(job.data.kind);
  std::string text;
  if (kind == nullptr) return text;
  for (const JobKey& key : job_keys()) {
    const auto* field = std::get_if<OptionField>(&key.field);
    if (field == nullptr || field->family != OptionsOf::kData) continue;
    const OptionValue* value = job.data.options.find(field->spec->name);
    // Run folders hold the defaults of every kind.
    if (value == nullptr || *value == field->spec->initial()) continue;
    if (find_option(kind->options, field->spec->name) != nullptr) continue;
    text += fmt::format("{}{} = {} (for {})", text.empty() ? "" : ", ", key.path, value_text(job, key),
                        field->rows);
  }
  return text.empty() ? "" : fmt::format("without effect on data.kind = \"{}\": {}", kind->name, text);
}

// Jobs on the built-in digits and on synthetic samples have their defaults.
bool is_picked_by_data(const Job& job) {
  const data::DataKind* kind = data::find_kind(job.data.kind);
  return kind != nullptr && kind->needs_path;
}

}  // namespace

std::vector<std::string> settle_job(Job& job, const data::Dataset& data) {
  std::vector<std::string> notes;
  Settler settler(job, data);
  if (is_picked_by_data(job)) {
    settler.pick_model();
    settler.pick_pixels();
    settler.pick_batch();
    settler.pick_length();
    notes.push_back(settler.told());
  }
  notes.push_back(settler.lower_batch());
  notes.push_back(unused_options(job));
  std::erase(notes, "");
  return notes;
}

void settle_model(Job& job, const std::optional<Shape>& shape) {
  if (!is_picked_by_data(job)) return;
  data::Dataset samples;
  // A row of a table is a vector; whatever else has no known shape is taken for an image.
  const data::SampleForm form = sample_form(job);
  samples.sample_shape = shape.value_or(form == data::SampleForm::kRow ? Shape{1} : Shape{1, 28, 28});
  Settler settler(job, samples);
  if (form == data::SampleForm::kTokens) {
    samples.dtype = DType::kI32;
    settler.pick("train.batch", job.train.batch, kTextBatch);
  }
  settler.pick_model();
}

std::vector<std::string_view> open_keys(const Job& job) {
  std::vector<std::string_view> open;
  for (const std::string_view key : kPickable)
    if (!job.given_at.contains(key)) open.push_back(key);
  return open;
}

bool keep_as_begun(Job& job, const Job& asked, const Job& before) {
  if (diff_jobs(before, job).empty()) return false;
  if (diff_jobs(before, asked).empty()) {
    job = asked;
    return true;
  }
  Job longer = job;  // trained on, it is evaluated and saved as before
  if (!job.given_at.contains("train.eval_steps")) longer.train.eval_steps = before.train.eval_steps;
  if (!job.given_at.contains("train.checkpoint_steps"))
    longer.train.checkpoint_steps = before.train.checkpoint_steps;
  Job as_long = longer;
  as_long.train.epochs = before.train.epochs;
  as_long.train.steps = before.train.steps;
  if (!diff_jobs(before, as_long).empty()) return false;
  job = std::move(longer);
  return true;
}

}  // namespace trireme::job
