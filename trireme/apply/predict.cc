#include "trireme/apply/predict.h"

#include <algorithm>
#include <cmath>

#include "trireme/job/eval_batch.h"
#include "trireme/lower/open_device.h"

namespace trireme::apply {
namespace {

using model::ModelTask;
using runtime::Task;

// Called for each sample, in any order, with what was fed and what came out. On a mesh: for those of this
// rank's replica.
using SampleVisitor =
    std::function<void(std::int64_t index, std::span<const float> fed, std::span<const float> out)>;

Task<Status> run_forward(runtime::Runtime& rt, const LoadedModel& model, const Samples& samples,
                         std::int64_t count, SampleVisitor visit, BatchProgress progress) {
  const std::int64_t batch = std::min(job::eval_batch_of(model.job), count);
  std::vector<std::string> outputs{"logits"};
  TR_CO_ASSIGN_OR_RETURN(const auto graph, co_await compile_forward(rt, model, batch, std::move(outputs)));
  if (model.device != nullptr) co_await lower::keep_texts(rt);
  const std::int64_t first = engine::range_of(*samples.data, samples.part).first;
  const std::int64_t batches = (count + batch - 1) / batch;
  TR_CO_ASSIGN_OR_RETURN(const auto evaluator, make_evaluator(rt, model, samples.data, graph, batch));
  engine::BatchRange own{0, batches};
  if (model.part != nullptr) own = model.part->batches(graph->graph(), batches);
  const std::int64_t own_batches = std::min(own.end, batches) - std::min(own.begin, batches);
  const bool has_logits = graph->graph().find_output("logits").has_value();  // else a later stage has them
  std::int64_t done = 0;
  engine::Evaluator::Visitor visitor = [&](std::int64_t i, std::span<const std::int64_t> ids,
                                           const prepare::BatchTensors& fed,
                                           const exec::Execution& run) -> Status {
    if (i >= batches) return {};  // behind the last sample
    if (progress) progress(++done, own_batches);
    if (!has_logits) return {};
    TR_ASSIGN_OR_RETURN(const Tensor logits, run.fetch("logits"));
    const auto in = fed.x.values<float>(), out = logits.values<float>();
    const std::size_t in_each = in.size() / ids.size(), out_each = out.size() / ids.size();
    for (std::size_t k = 0; k < ids.size(); ++k)
      if (ids[k] >= 0 && ids[k] - first < count)
        visit(ids[k] - first, in.subspan(k * in_each, in_each), out.subspan(k * out_each, out_each));
    return {};
  };
  co_return co_await evaluator->visit(samples.part, own.begin, own.end, std::move(visitor));
}

std::int64_t count_of(const Samples& samples, std::int64_t most) {
  return most > 0 ? std::min(most, samples.count()) : samples.count();
}

}  // namespace

Status check_samples(const Samples& samples) {
  if (samples.count() > 0) return {};
  return error(Code::kInvalid, "[predict] {} has no {} samples; take another --part, or --input",
               samples.data->source, engine::part_name(samples.part));
}

namespace {

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

// Predictions of samples that other replicas have seen, to the first rank.
Task<Status> collect_predictions(ModelPart& part, std::vector<Prediction>& all) {
  constexpr std::int64_t kFields = 4;
  const auto count = static_cast<std::int64_t>(all.size());
  TR_CO_ASSIGN_OR_RETURN(const Tensor fields, allocate_zeros(cpu_device(), {DType::kF64, {count, kFields}}));
  double* at = fields.data<double>();
  for (const Prediction& p : all) {
    const bool own = p.probability != 0;  // seen by this replica
    for (const double v : {double(p.best), double(p.second), p.probability, p.second_probability})
      *at++ = own ? v : 0;
  }
  TR_CO_RETURN_IF_ERROR(co_await part.collect(fields, "predictions"));
  at = fields.data<double>();
  for (Prediction& p : all) {
    p.best = static_cast<std::int32_t>(*at++);
    p.second = static_cast<std::int32_t>(*at++);
    p.probability = *at++;
    p.second_probability = *at++;
  }
  co_return Status();
}

// Numbers of each sample, zero for those that this rank has not seen.
template <class T>
Task<Status> collect_numbers(ModelPart& part, std::vector<T>& numbers, DType dtype) {
  const auto count = static_cast<std::int64_t>(numbers.size());
  TR_CO_ASSIGN_OR_RETURN(const Tensor all, allocate_zeros(cpu_device(), {dtype, {count}}));
  std::copy(numbers.begin(), numbers.end(), all.data<T>());
  TR_CO_RETURN_IF_ERROR(co_await part.collect(all, "reconstructions"));
  std::copy_n(all.data<T>(), numbers.size(), numbers.begin());
  co_return Status();
}

}  // namespace

Task<Result<std::vector<Prediction>>> classify(runtime::Runtime& rt, const LoadedModel& model,
                                               const Samples& samples, std::int64_t most,
                                               BatchProgress progress) {
  if (model.input.task != ModelTask::kClassify)
    co_return error(Code::kInvalid, "[predict] the model of job '{}' does not classify", model.job.name);
  const std::int64_t count = count_of(samples, most);
  TR_CO_RETURN_IF_ERROR(check_samples(samples));
  std::vector<Prediction> out(static_cast<std::size_t>(count));
  for (std::int64_t i = 0; i < count; ++i) {
    out[static_cast<std::size_t>(i)].name = samples.name_of(i);
    out[static_cast<std::size_t>(i)].label = samples.label_of(i);
  }
  SampleVisitor visit = [&](std::int64_t index, std::span<const float>, std::span<const float> logits) {
    take_best_two(logits, out[static_cast<std::size_t>(index)]);
  };
  TR_CO_RETURN_IF_ERROR(
      co_await run_forward(rt, model, samples, count, std::move(visit), std::move(progress)));
  if (model.part != nullptr) TR_CO_RETURN_IF_ERROR(co_await collect_predictions(*model.part, out));
  co_return out;
}

Task<Result<Reconstructions>> reconstruct(runtime::Runtime& rt, const LoadedModel& model,
                                          const Samples& samples, std::int64_t most, BatchProgress progress) {
  if (model.input.task != ModelTask::kReconstruct)
    co_return error(Code::kInvalid, "[predict] the model of job '{}' does not reconstruct", model.job.name);
  const std::int64_t count = count_of(samples, most);
  TR_CO_RETURN_IF_ERROR(check_samples(samples));
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
  if (model.part == nullptr) co_return out;
  TR_CO_RETURN_IF_ERROR(co_await collect_numbers(*model.part, out.errors, DType::kF64));
  TR_CO_RETURN_IF_ERROR(co_await collect_numbers(*model.part, out.originals, DType::kF32));
  TR_CO_RETURN_IF_ERROR(co_await collect_numbers(*model.part, out.rebuilt, DType::kF32));
  co_return out;
}

}  // namespace trireme::apply
