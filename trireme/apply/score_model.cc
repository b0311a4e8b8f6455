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

// What the logits say about their samples. The ranks of a mesh add theirs up.
struct Tally {
  Tensor counts;  // how many have their class among the five best; then the confusion, where it is counted

  static Result<Tally> make(std::int64_t classes, bool classify) {
    const bool confuses = classify && classes <= kMaxConfusionClasses;
    TR_ASSIGN_OR_RETURN(
        Tensor counts, allocate_zeros(cpu_device(), {DType::kI64, {1 + (confuses ? classes * classes : 0)}}));
    return Tally{std::move(counts)};
  }
  std::int64_t among_five() const { return counts.values<std::int64_t>()[0]; }
  std::span<const std::int64_t> confusion() const { return counts.values<std::int64_t>().subspan(1); }

  void add(std::span<const float> row, std::int64_t label) {
    const auto best =
        std::max_element(row.begin(), row.end()) - row.begin();  // the first, as `correct` has it
    const std::span<std::int64_t> all = counts.values<std::int64_t>();
    if (all.size() > 1)
      all[1 + static_cast<std::size_t>(label) * row.size() + static_cast<std::size_t>(best)] += 1;
    const float own = row[static_cast<std::size_t>(label)];
    if (std::count_if(row.begin(), row.end(), [&](float v) { return v > own; }) < 5) ++all[0];
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

}  // namespace

Status check_part(const LoadedModel& model, engine::Part part) {
  if (engine::range_of(*model.data, part).count > 0) return {};
  const char* next = part == engine::Part::kValidation
                         ? "train with data.validation above 0, or take --part test"
                     : part == engine::Part::kTest ? "set data.test above 0, or take --part train"
                                                   : "check the data";
  return error(Code::kInvalid, "[eval] {} has no {} samples; {}", model.data->source, engine::part_name(part),
               next);
}

std::string class_name(const data::Dataset& data, std::int64_t index) {
  const auto at = static_cast<std::size_t>(index);
  return at < data.class_names.size() ? data.class_names[at] : fmt::format("{}", index);
}

Task<Result<Score>> score_model(runtime::Runtime& rt, const LoadedModel& model, engine::Part part,
                                BatchProgress progress) {
  Score score;
  score.part = part;
  score.samples = engine::range_of(*model.data, part).count;
  TR_CO_RETURN_IF_ERROR(check_part(model, part));
  const bool classify = model.input.task == ModelTask::kClassify;
  std::vector<std::string> outputs{"loss", "correct"};
  if (classify) outputs.emplace_back("logits");
  const std::int64_t batch_size = job::eval_batch_of(model.job);
  TR_CO_ASSIGN_OR_RETURN(const auto graph,
                         co_await compile_forward(rt, model, batch_size, std::move(outputs)));
  if (model.device != nullptr) co_await lower::keep_texts(rt);
  TR_CO_ASSIGN_OR_RETURN(const auto evaluator, make_evaluator(rt, model, model.data, graph, batch_size));
  const std::int64_t batches = evaluator->num_batches(part);
  engine::BatchRange own{0, batches};
  if (model.part != nullptr) own = model.part->batches(graph->graph(), batches);
  const std::int64_t own_batches = std::min(own.end, batches) - std::min(own.begin, batches);
  TR_CO_ASSIGN_OR_RETURN(const Tensor sums, allocate_zeros(cpu_device(), {DType::kF32, {2 * batches}}));
  TR_CO_ASSIGN_OR_RETURN(Tally tally, Tally::make(model.input.num_classes, classify));
  const bool has_scores = graph->graph().find_output("loss").has_value();  // else a later stage has them
  std::int64_t done = 0;
  engine::Evaluator::Visitor visitor = [&](std::int64_t batch, std::span<const std::int64_t> ids,
                                           const prepare::BatchTensors&,
                                           const exec::Execution& run) -> Status {
    if (batch >= batches) return {};  // behind the last sample
    if (progress) progress(++done, own_batches);
    if (!has_scores) return {};
    TR_ASSIGN_OR_RETURN(const Tensor loss, run.fetch("loss"));
    TR_ASSIGN_OR_RETURN(const Tensor correct, run.fetch("correct"));
    sums.data<float>()[2 * batch] = *loss.data<float>();
    sums.data<float>()[2 * batch + 1] = *correct.data<float>();
    return classify ? tally_batch(model, ids, run, tally) : Status();
  };
  const TimeNs began = rt.now();
  TR_CO_RETURN_IF_ERROR(co_await evaluator->visit(part, own.begin, own.end, std::move(visitor)));
  if (model.part != nullptr) {
    TR_CO_RETURN_IF_ERROR(co_await model.part->collect(sums, "losses"));
    TR_CO_RETURN_IF_ERROR(co_await model.part->collect(tally.counts, "counts"));
  }
  score.took = rt.now() - began;
  const std::span<const float> values = sums.values<float>();
  for (std::size_t i = 0; i < values.size(); i += 2) {
    score.loss += values[i];
    score.accuracy += values[i + 1];
  }
  score.loss /= static_cast<double>(score.samples);
  score.accuracy /= static_cast<double>(score.samples);
  score.confusion.assign(tally.confusion().begin(), tally.confusion().end());
  if (classify && model.input.num_classes > kTop5Classes)
    score.top5 = static_cast<double>(tally.among_five()) / static_cast<double>(score.samples);
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
