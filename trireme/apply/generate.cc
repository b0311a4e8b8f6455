#include "trireme/apply/generate.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

#include "trireme/base/hash.h"
#include "trireme/base/rng.h"
#include "trireme/prepare/batch.h"

namespace trireme::apply {
namespace {

using runtime::Task;

constexpr std::size_t kMaxCharBytes = 4;  // of UTF-8
constexpr std::size_t kMaxNamed = 8;      // unknown characters that an error names

// How many bytes the character at the start of `text` seems to have, for messages.
std::size_t shown_bytes(std::string_view text) {
  const auto first = static_cast<unsigned char>(text[0]);
  const std::size_t size = first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : first >= 0xC0 ? 2 : 1;
  return std::min(size, text.size());
}

// One run of the model over a window of tokens.
class Window {
 public:
  static Task<Result<Window>> make(runtime::Runtime& rt, const LoadedModel& model) {
    Window w;
    w.context_ = static_cast<std::size_t>(model.input.sample_shape[0]);
    w.vocabulary_ = static_cast<std::size_t>(model.input.num_classes);
    std::vector<std::string> outputs{"logits"};
    TR_CO_ASSIGN_OR_RETURN(const auto compiled, co_await compile_forward(rt, model, 1, std::move(outputs)));
    exec::ExecutionOptions with;
    with.variables = model.variables.get();
    with.mirror = model.mirror.get();
    if (model.part != nullptr) with.host_ops = model.part->host_ops();
    TR_CO_ASSIGN_OR_RETURN(w.execution_, exec::make_execution(rt, compiled, std::move(with)));
    TR_CO_ASSIGN_OR_RETURN(w.batch_, prepare::allocate_batch(cpu_device(), model.input, 1));
    TR_CO_RETURN_IF_ERROR(prepare::feed_batch(*w.execution_, compiled->graph(), model.input, w.batch_));
    if (model.part != nullptr)
      TR_CO_RETURN_IF_ERROR(prepare::feed_tile(*w.execution_, compiled->graph(), model.part->tile()));
    w.has_logits_ = compiled->graph().find_output("logits").has_value();
    co_return w;
  }

  // Logits of what follows the last of `tokens`; none where a later stage has them. They stand at the
  // window's start: what comes after is not seen by a model that reads from left to right.
  Task<Result<std::vector<float>>> next(std::span<const std::int32_t> tokens) {
    const std::size_t used = std::min(context_, tokens.size());
    const auto x = batch_.x.values<std::int32_t>();
    std::fill(x.begin(), x.end(), 0);
    std::copy(tokens.end() - static_cast<std::ptrdiff_t>(used), tokens.end(), x.begin());
    const exec::RunOptions how{.number = runs_++};
    TR_CO_RETURN_IF_ERROR(co_await execution_->run(how));
    if (!has_logits_) co_return std::vector<float>();
    TR_CO_ASSIGN_OR_RETURN(const Tensor logits, execution_->fetch("logits"));
    const auto row = logits.values<float>().subspan((used - 1) * vocabulary_, vocabulary_);
    co_return std::vector<float>(row.begin(), row.end());
  }

 private:
  Window() = default;
  std::size_t context_ = 0, vocabulary_ = 0;
  bool has_logits_ = true;
  std::uint64_t runs_ = 0;
  std::unique_ptr<exec::Execution> execution_;
  prepare::BatchTensors batch_;
};

}  // namespace

Result<std::vector<std::int32_t>> tokenise(const data::Dataset& data, std::string_view text) {
  std::map<std::string_view, std::int32_t> numbers;
  for (std::size_t i = 0; i < data.class_names.size(); ++i)
    numbers.emplace(data.class_names[i], static_cast<std::int32_t>(i));
  std::vector<std::int32_t> tokens;
  std::vector<std::string> unknown;
  for (std::size_t at = 0; at < text.size();) {
    std::size_t size = 1;
    auto found = numbers.end();
    for (; size <= kMaxCharBytes && at + size <= text.size() && found == numbers.end(); ++size)
      found = numbers.find(text.substr(at, size));
    if (found != numbers.end()) {
      tokens.push_back(found->second);
      at += found->first.size();
      continue;
    }
    size = shown_bytes(text.substr(at));
    unknown.push_back(fmt::format("'{}' at offset {}", text.substr(at, size), at));
    at += size;
  }
  if (unknown.empty()) return tokens;
  std::string list;
  for (std::size_t i = 0; i < std::min(kMaxNamed, unknown.size()); ++i)
    list += (i > 0 ? ", " : "") + unknown[i];
  if (unknown.size() > kMaxNamed) list += fmt::format(" and {} more", unknown.size() - kMaxNamed);
  return error(
      Code::kInvalid,
      "[predict] --prompt has characters that the model never saw: {}; expected some of the {} of the text "
      "that it learned",
      list, data.num_classes);
}

Status check_options(const GenerateOptions& o) {
  if (o.tokens < 1 || o.tokens > 10'000'000)
    return error(Code::kInvalid, "[predict] --tokens: got {}, expected 1 to 10000000", o.tokens);
  if (!(o.temperature >= 0 && o.temperature <= 100))
    return error(Code::kInvalid, "[predict] --temperature: got {}, expected 0 (most likely token) to 100",
                 o.temperature);
  if (o.top_k < 0)
    return error(Code::kInvalid, "[predict] --top-k: got {}, expected 0 (all) or more", o.top_k);
  return {};
}

std::int32_t pick_token(std::span<const float> logits, const GenerateOptions& options,
                        std::int64_t position) {
  std::vector<std::int32_t> order(logits.size());
  std::iota(order.begin(), order.end(), 0);
  const auto value = [&](std::int32_t i) { return static_cast<double>(logits[static_cast<std::size_t>(i)]); };
  std::stable_sort(order.begin(), order.end(),
                   [&](std::int32_t a, std::int32_t b) { return value(a) > value(b); });
  if (options.temperature <= 0) return order[0];
  if (options.top_k > 0 && static_cast<std::size_t>(options.top_k) < order.size())
    order.resize(static_cast<std::size_t>(options.top_k));
  std::vector<double> sums(order.size());
  double sum = 0;
  for (std::size_t i = 0; i < order.size(); ++i)
    sums[i] = sum += std::exp((value(order[i]) - value(order[0])) / options.temperature);
  Philox rng(mix_key(options.seed, hash_text("generate")), static_cast<std::uint64_t>(position));
  const double drawn = rng.next_double() * sum;
  const auto at = std::upper_bound(sums.begin(), sums.end(), drawn);
  return at == sums.end() ? order.back() : order[static_cast<std::size_t>(at - sums.begin())];
}

Status check_prompt(const LoadedModel& model, const GenerateOptions& options) {
  TR_RETURN_IF_ERROR(check_options(options));
  return options.prompt.empty() ? Status() : tokenise(*model.data, options.prompt).status();
}

Task<Result<Generated>> generate(runtime::Runtime& rt, const LoadedModel& model, GenerateOptions options,
                                 std::function<void(std::string_view)> emit) {
  if (model.input.task != model::ModelTask::kLanguage)
    co_return error(Code::kInvalid, "[predict] the model of job '{}' does not continue texts",
                    model.job.name);
  TR_CO_RETURN_IF_ERROR(check_options(options));
  const std::vector<std::string>& names = model.data->class_names;
  if (options.prompt.empty())
    options.prompt = std::find(names.begin(), names.end(), "\n") != names.end() ? "\n" : names[0];
  TR_CO_ASSIGN_OR_RETURN(std::vector<std::int32_t> tokens, tokenise(*model.data, options.prompt));
  TR_CO_ASSIGN_OR_RETURN(Window window, co_await Window::make(rt, model));
  Generated out;
  out.prompt = options.prompt;
  const std::int32_t none[] = {0};
  const Tensor drawn = Tensor::from<std::int32_t>(none, {1});  // by the last stage, for all
  std::int32_t& token = *drawn.data<std::int32_t>();
  const TimeNs began = rt.now();
  for (; out.tokens < options.tokens; ++out.tokens) {
    const Result<std::vector<float>> logits = co_await window.next(tokens);
    if (!logits.ok()) co_return logits.status();
    if (!logits->empty()) token = pick_token(*logits, options, out.tokens);
    if (model.part != nullptr)
      TR_CO_RETURN_IF_ERROR(co_await model.part->give_from_last_stage(drawn, "the next token"));
    tokens.push_back(token);
    const std::string& text = names[static_cast<std::size_t>(token)];
    out.text += text;
    if (emit) emit(text);
  }
  out.took = rt.now() - began;
  co_return out;
}

}  // namespace trireme::apply
