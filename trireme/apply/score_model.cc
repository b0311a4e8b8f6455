#include "trireme/apply/score_model.h"

#include <algorithm>

#include "trireme/job/eval_batch.h"
#include "trireme/lower/open_device.h"

namespace trireme::apply {
namespace {

using model::ModelTask;
using runtime::Task;

constexpr int kTop5Classes = 10;               // five of ten is no feat
constexpr int kMaxConfusionClasses = 1 << 12;  // 128 MiB of counts

// What one batch's logits say about its samples.
struct Tally {
  std::vector<std::int64_t> confusion;
  std::int64_t among_five = 0;

  void add(std::span<const float> row, std::int64_t label) {
    const auto best =
        std::max_element(row.begin(), row.end()) - row.begin();  // the first, as `correct` has it
    if (!confusion.empty())
      confusion[static_cast<std::size_t>(label) * row.size() + static_cast<std::size_t>(best)] += 1;
    const float own = row[static_cast<std::size_t>(label)];
    if (std::count_if(row.begin(), row.end(), [&](float v) { return v > own; }) < 5) ++among_five;
  }
};

Status tally_batch(const LoadedModel& model, std::span<const std::int64_t> ids, const exec::Execution& run,
                   Tally& tally) {
  TR_ASSIGN_OR_RETURN(const Tensor logits, run.fetch("logits"));
  const auto values = logits.values<float>();
  const auto classes = static_cast<std::size_t>(model.input.num_classes);
  for (std::size_t i = 0; i < ids.size(); ++i)
    if (ids[i] >= 0) tally.add(values.subspan(i * classes, classes), model.data->label_of(ids[i]));
  return {};
}

Status refuse_empty(const LoadedModel& model, engine::Part part) {
  const char* next = part == engine::Part::kValidation
                         ? "train with data.validation above 0, or take --part test"
                     : part == engine::Part::kTest ? "set data.test above 0, or take --part train"
                                                   : "check the data";
  return error(Code::kInvalid, "[eval] {} has no {} samples; {}", model.data->source, engine::part_name(part),
               next);
}

}  // namespace

std::string class_name(const data::Dataset& data, std::int64_t index) {
  const auto at = static_cast<std::size_t>(index);
  return at < data.class_names.size() ? data.class_names[at] : fmt::format("{}", index);
}

Task<Result<Score>> score_model(runtime::Runtime& rt, const LoadedModel& model, engine::Part part,
                                BatchProgress progress) {
  Score score;
  score.part = part;
  score.samples = engine::range_of(*model.data, part).count;
  if (score.samples == 0) co_return refuse_empty(model, part);
  const bool classify = model.input.task == ModelTask::kClassify;
  std::vector<std::string> outputs{"loss", "correct"};
  if (classify) outputs.emplace_back("logits");
  engine::EvaluatorOptions options;
  options.batch = job::eval_batch_of(model.job);
  TR_CO_ASSIGN_OR_RETURN(options.graph, compile_forward(model, options.batch, std::move(outputs)));
  if (model.device != nullptr) co_await lower::keep_texts(rt);
  options.input = model.input;
  options.variables = model.variables.get();
  options.data = model.data;
  options.slots = model.slots(rt);
  options.mirror = model.mirror.get();
  TR_CO_ASSIGN_OR_RETURN(const auto evaluator, engine::Evaluator::make(rt, std::move(options)));
  const std::int64_t batches = evaluator->num_batches(part);
  std::vector<float> sums(static_cast<std::size_t>(2 * batches));
  Tally tally;
  if (classify && model.input.num_classes <= kMaxConfusionClasses)
    tally.confusion.resize(static_cast<std::size_t>(model.input.num_classes) *
                           static_cast<std::size_t>(model.input.num_classes));
  std::int64_t done = 0;
  engine::Evaluator::Visitor visitor = [&](std::int64_t batch, std::span<const std::int64_t> ids,
                                           const prepare::BatchTensors&,
                                           const exec::Execution& run) -> Status {
    TR_ASSIGN_OR_RETURN(const Tensor loss, run.fetch("loss"));
    TR_ASSIGN_OR_RETURN(const Tensor correct, run.fetch("correct"));
    sums[static_cast<std::size_t>(2 * batch)] = *loss.data<float>();
    sums[static_cast<std::size_t>(2 * batch + 1)] = *correct.data<float>();
    if (progress) progress(++done, batches);
    return classify ? tally_batch(model, ids, run, tally) : Status();
  };
  const TimeNs began = rt.now();
  TR_CO_RETURN_IF_ERROR(co_await evaluator->visit(part, 0, batches, std::move(visitor)));
  score.took = rt.now() - began;
  for (std::size_t i = 0; i < sums.size(); i += 2) {
    score.loss += sums[i];
    score.accuracy += sums[i + 1];
  }
  score.loss /= static_cast<double>(score.samples);
  score.accuracy /= static_cast<double>(score.samples);
  score.confusion = std::move(tally.confusion);
  if (classify && model.input.num_classes > kTop5Classes)
    score.top5 = static_cast<double>(tally.among_five) / static_cast<double>(score.samples);
  co_return score;
}

std::vector<Confusion> worst_confusions(const Score& score, int num_classes, std::size_t most) {
  std::vector<Confusion> found;
  if (score.confusion.empty()) return found;
  for (std::int64_t i = 0; i < num_classes; ++i)
    for (std::int64_t j = 0; j < num_classes; ++j)
      if (const std::int64_t n = score.confusion[static_cast<std::size_t>(i * num_classes + j)];
          i != j && n > 0)
        found.push_back({i, j, n});
  std::stable_sort(found.begin(), found.end(),
                   [](const auto& a, const auto& b) { return a.count > b.count; });
  if (found.size() > most) found.resize(most);
  return found;
}

}  // namespace trireme::apply
