#include "trireme/apply/predict.h"

#include <algorithm>
#include <cmath>

#include "trireme/job/eval_batch.h"
#include "trireme/lower/open_device.h"

namespace trireme::apply {
namespace {

using model::ModelTask;
using runtime::Task;

// Called for each sample, in any order, with what was fed and what came out.
using SampleVisitor =
    std::function<void(std::int64_t index, std::span<const float> fed, std::span<const float> out)>;

Task<Status> run_forward(runtime::Runtime& rt, const LoadedModel& model, const Samples& samples,
                         std::int64_t count, SampleVisitor visit, BatchProgress progress) {
  engine::EvaluatorOptions options;
  options.batch = std::min(job::eval_batch_of(model.job), count);
  std::vector<std::string> outputs{"logits"};
  TR_CO_ASSIGN_OR_RETURN(options.graph, compile_forward(model, options.batch, std::move(outputs)));
  if (model.device != nullptr) co_await lower::keep_texts(rt);
  options.input = model.input;
  options.variables = model.variables.get();
  options.data = samples.data;
  options.slots = model.slots(rt);
  options.mirror = model.mirror.get();
  const std::int64_t first = engine::range_of(*samples.data, samples.part).first;
  const std::int64_t batches = (count + options.batch - 1) / options.batch;
  TR_CO_ASSIGN_OR_RETURN(const auto evaluator, engine::Evaluator::make(rt, std::move(options)));
  std::int64_t done = 0;
  engine::Evaluator::Visitor visitor = [&](std::int64_t, std::span<const std::int64_t> ids,
                                           const prepare::BatchTensors& fed,
                                           const exec::Execution& run) -> Status {
    TR_ASSIGN_OR_RETURN(const Tensor logits, run.fetch("logits"));
    const auto in = fed.x.values<float>(), out = logits.values<float>();
    const std::size_t in_each = in.size() / ids.size(), out_each = out.size() / ids.size();
    for (std::size_t i = 0; i < ids.size(); ++i)
      if (ids[i] >= 0 && ids[i] - first < count)
        visit(ids[i] - first, in.subspan(i * in_each, in_each), out.subspan(i * out_each, out_each));
    if (progress) progress(++done, batches);
    return {};
  };
  co_return co_await evaluator->visit(samples.part, 0, batches, std::move(visitor));
}

std::int64_t count_of(const Samples& samples, std::int64_t most) {
  return most > 0 ? std::min(most, samples.count()) : samples.count();
}

Status refuse_empty(const Samples& samples) {
  return error(Code::kInvalid, "[predict] {} has no {} samples; take another --part, or --input",
               samples.data->source, engine::part_name(samples.part));
}

// The first of equal ones wins, as in evaluation.
void take_best_two(std::span<const float> logits, Prediction& p) {
  const auto value = [&](std::int32_t i) { return static_cast<double>(logits[static_cast<std::size_t>(i)]); };
  for (std::int32_t i = 1; i < static_cast<std::int32_t>(logits.size()); ++i)
    if (value(i) > value(p.best)) p.best = i;
  for (std::int32_t i = 0; i < static_cast<std::int32_t>(logits.size()); ++i)
    if (i != p.best && (p.second < 0 || value(i) > value(p.second))) p.second = i;
  double sum = 0;
  for (const float v : logits) sum += std::exp(static_cast<double>(v) - value(p.best));
  p.probability = 1 / sum;
  if (p.second >= 0) p.second_probability = std::exp(value(p.second) - value(p.best)) / sum;
}

}  // namespace

Task<Result<std::vector<Prediction>>> classify(runtime::Runtime& rt, const LoadedModel& model,
                                               const Samples& samples, std::int64_t most,
                                               BatchProgress progress) {
  if (model.input.task != ModelTask::kClassify)
    co_return error(Code::kInvalid, "[predict] the model of job '{}' does not classify", model.job.name);
  const std::int64_t count = count_of(samples, most);
  if (count == 0) co_return refuse_empty(samples);
  std::vector<Prediction> out(static_cast<std::size_t>(count));
  SampleVisitor visit = [&](std::int64_t index, std::span<const float>, std::span<const float> logits) {
    Prediction& p = out[static_cast<std::size_t>(index)];
    p.name = samples.name_of(index);
    p.label = samples.label_of(index);
    take_best_two(logits, p);
  };
  TR_CO_RETURN_IF_ERROR(
      co_await run_forward(rt, model, samples, count, std::move(visit), std::move(progress)));
  co_return out;
}

Task<Result<Reconstructions>> reconstruct(runtime::Runtime& rt, const LoadedModel& model,
                                          const Samples& samples, std::int64_t most, BatchProgress progress) {
  if (model.input.task != ModelTask::kReconstruct)
    co_return error(Code::kInvalid, "[predict] the model of job '{}' does not reconstruct", model.job.name);
  const std::int64_t count = count_of(samples, most);
  if (count == 0) co_return refuse_empty(samples);
  const auto elems = static_cast<std::size_t>(samples.data->sample_elems());
  Reconstructions out;
  for (std::int64_t i = 0; i < count; ++i) out.names.push_back(samples.name_of(i));
  out.errors.resize(static_cast<std::size_t>(count));
  out.originals.resize(static_cast<std::size_t>(count) * elems);
  out.rebuilt.resize(out.originals.size());
  SampleVisitor visit = [&](std::int64_t index, std::span<const float> fed, std::span<const float> rebuilt) {
    const std::size_t at = static_cast<std::size_t>(index) * elems;
    std::copy(fed.begin(), fed.end(), out.originals.begin() + static_cast<std::ptrdiff_t>(at));
    std::copy(rebuilt.begin(), rebuilt.end(), out.rebuilt.begin() + static_cast<std::ptrdiff_t>(at));
    double sum = 0;
    for (std::size_t i = 0; i < elems; ++i) {
      const double d = static_cast<double>(fed[i]) - static_cast<double>(rebuilt[i]);
      sum += d * d;
    }
    out.errors[static_cast<std::size_t>(index)] = sum / static_cast<double>(elems);
  };
  TR_CO_RETURN_IF_ERROR(
      co_await run_forward(rt, model, samples, count, std::move(visit), std::move(progress)));
  co_return out;
}

}  // namespace trireme::apply
