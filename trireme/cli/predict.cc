// `trireme predict RUN`: what a trained model says: classes of samples, a text that goes on, pictures drawn
// again.
#include <cstdio>

#include "trireme/apply/generate.h"
#include "trireme/apply/predict_sheet.h"
#include "trireme/cli/command.h"
#include "trireme/cli/number_checks.h"
#include "trireme/cli/predict_model.h"
#include "trireme/data/read/image_encode.h"

namespace trireme::cli {
namespace {

using model::ModelTask;
using runtime::Runtime;
using runtime::Task;

constexpr std::int64_t kShownOfPart = 32;  // samples of a part; of --input all are shown

struct PredictArgs {
  TrainedArgs model;
  std::string part = "test", input;
  std::int64_t samples = -1;  // -1: not given
  std::string csv, png, filters;
  apply::GenerateOptions text;
  bool json = false, quiet = false;
  std::vector<const Option*> text_options, sample_options;  // to refuse those of another task
};

// Options of another task are a mistake, not noise.
Status refuse_given(const std::vector<const Option*>& options, const char* does) {
  for (const Option* option : options)
    if (option->given())
      return error(Code::kInvalid, "[predict] {} is not for this model: it {}", option->name(), does);
  return {};
}

Task<Status> write_file(Runtime& rt, std::string path, ByteView bytes) {
  const Status status = co_await rt.files().write_atomic(path, bytes);
  if (status.ok()) print_note(fmt::format("written: {}", path));
  co_return status;
}

Task<Status> write_picture(Runtime& rt, std::string path, const data::Picture& picture) {
  TR_CO_ASSIGN_OR_RETURN(const Bytes bytes, data::encode_png(picture));
  co_return co_await write_file(rt, std::move(path), bytes);
}

// How many samples are wanted; 0: all.
std::int64_t wanted(const PredictArgs& args, const apply::Samples& samples) {
  if (args.samples >= 0) return args.samples;
  return !args.input.empty() || samples.count() <= kShownOfPart ? 0 : kShownOfPart;
}

void print_sample_notes(const PredictArgs& args, const apply::Samples& samples) {
  for (const std::string& note : samples.notes) print_note(note);
  if (args.samples >= 0 || wanted(args, samples) == 0) return;
  print_note(fmt::format("the first {} of {} samples; --samples 0 takes all", kShownOfPart, samples.count()));
}

Task<Result<apply::Samples>> take_samples(Runtime& rt, const PredictArgs& args,
                                          const apply::LoadedModel& model) {
  TR_CO_ASSIGN_OR_RETURN(const engine::Part part, engine::parse_part(args.part));
  if (args.input.empty()) co_return apply::samples_of_part(model, part);
  co_return co_await apply::read_samples(rt, model, args.input);
}

Task<Status> predict_classes(Runtime& rt, const PredictArgs& args, const apply::LoadedModel& model,
                             bool tells) {
  const Result<apply::Samples> samples = co_await take_samples(rt, args, model);
  if (!samples.ok()) co_return samples.status();
  if (tells) print_sample_notes(args, *samples);
  apply::BatchProgress progress = batch_progress(args.quiet || !tells);
  const std::int64_t most = wanted(args, *samples);
  const auto found = co_await apply::classify(rt, model, *samples, most, std::move(progress));
  if (!found.ok() || !tells) co_return found.status();
  if (!args.csv.empty()) {
    const std::string text = apply::to_csv(*found, model);
    TR_CO_RETURN_IF_ERROR(co_await write_file(rt, args.csv, as_bytes(text)));
  }
  if (args.json)
    std::fputs((apply::to_json(*found, model).dump(2) + "\n").c_str(), stdout);
  else if (args.csv.empty())
    std::fputs(apply::to_text(*found, model).c_str(), stdout);
  co_return Status();
}

Status check_no_csv(const PredictArgs& args) {
  if (args.csv.empty()) return {};
  return error(Code::kInvalid, "[predict] --csv is not for this model: it reconstructs; use --png or --json");
}

Task<Status> predict_pictures(Runtime& rt, const PredictArgs& args, const apply::LoadedModel& model,
                              bool tells) {
  const Result<apply::Samples> samples = co_await take_samples(rt, args, model);
  if (!samples.ok()) co_return samples.status();
  if (tells) print_sample_notes(args, *samples);
  apply::BatchProgress progress = batch_progress(args.quiet || !tells);
  const std::int64_t most = wanted(args, *samples);
  const auto found = co_await apply::reconstruct(rt, model, *samples, most, std::move(progress));
  if (!found.ok() || !tells) co_return found.status();
  if (!args.png.empty()) {
    TR_CO_ASSIGN_OR_RETURN(const data::Picture sheet, apply::reconstruction_sheet(*found, *samples->data));
    TR_CO_RETURN_IF_ERROR(co_await write_picture(rt, args.png, sheet));
  }
  if (args.json)
    std::fputs((apply::to_json(*found).dump(2) + "\n").c_str(), stdout);
  else if (args.png.empty() && args.filters.empty())
    std::fputs(apply::to_text(*found).c_str(), stdout);
  co_return Status();
}

Task<Status> predict_text(Runtime& rt, const PredictArgs& args, const apply::LoadedModel& model, bool tells) {
  const bool show = tells && !args.json;
  bool begun = false;  // nothing is shown before the first token: mistakes get a message alone
  std::function<void(std::string_view)> emit = [&](std::string_view text) {
    if (!show) return;
    if (!begun) std::fputs(args.text.prompt.c_str(), stdout);
    begun = true;
    std::fwrite(text.data(), 1, text.size(), stdout);
    std::fflush(stdout);
  };
  const Result<apply::Generated> made = co_await apply::generate(rt, model, args.text, std::move(emit));
  if (!made.ok() || !tells) co_return made.status();
  const double seconds = to_seconds(made->took);
  const double rate = seconds > 0 ? static_cast<double>(made->tokens) / seconds : 0;
  if (show) {
    std::fputs("\n", stdout);
    if (!args.quiet) print_note(fmt::format("{} tokens, {:.0f} per second", made->tokens, rate));
    co_return Status();
  }
  Json json;
  json["prompt"] = made->prompt;
  json["text"] = made->text;
  json["tokens"] = made->tokens;
  json["temperature"] = args.text.temperature;
  json["top_k"] = args.text.top_k;
  json["seed"] = args.text.seed;
  json["tokens_per_second"] = rate;
  // A text of bytes may end inside a character.
  std::fputs((json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n").c_str(), stdout);
  co_return Status();
}

Task<Status> check_outputs(Runtime& rt, const PredictArgs& args) {
  for (const std::string* path : {&args.csv, &args.png, &args.filters})
    if (!path->empty()) TR_CO_RETURN_IF_ERROR(co_await rt.files().check_output(*path));
  co_return Status();
}

// Options that are not for this model.
Status check_task(const PredictArgs& args, ModelTask task) {
  if (task == ModelTask::kLanguage) return refuse_given(args.sample_options, "continues a text (--prompt)");
  const bool classifies = task == ModelTask::kClassify;
  TR_RETURN_IF_ERROR(
      refuse_given(args.text_options, classifies ? "classifies samples" : "reconstructs samples"));
  if (classifies && !args.png.empty())
    return error(Code::kInvalid, "[predict] --png is not for this model: it classifies and draws nothing");
  return {};
}

// What ranks cannot do together.
Status check_mesh(const PredictArgs& args, ModelTask task, const parallel::Mesh& mesh) {
  if (!args.filters.empty())
    return error(
        Code::kInvalid,
        "[predict] --filters draws the weights of a layer, which no rank may have whole; leave --mesh "
        "and --workers out");
  const int replicas = mesh.num_replicas();
  if (task == ModelTask::kLanguage && replicas > 1)
    return error(
        Code::kInvalid,
        "[predict] a text is continued by one replica: got data={}, expected axes stage and model alone; use "
        "--mesh model={}",
        replicas, mesh.num_ranks());
  return {};
}

Task<Status> check_samples(Runtime& rt, const PredictArgs& args, const apply::LoadedModel& model) {
  const Result<apply::Samples> samples = co_await take_samples(rt, args, model);
  co_return samples.ok() ? apply::check_samples(*samples) : samples.status();
}

Task<Status> check_ranks(Runtime& rt, const PredictArgs& args, const apply::LoadedModel& model,
                         parallel::Mesh mesh) {
  const ModelTask task = model.input.task;
  TR_CO_RETURN_IF_ERROR(check_task(args, task));
  TR_CO_RETURN_IF_ERROR(check_mesh(args, task, mesh));
  if (task == ModelTask::kLanguage) co_return apply::check_prompt(model, args.text);
  if (task == ModelTask::kReconstruct) TR_CO_RETURN_IF_ERROR(check_no_csv(args));
  co_return co_await check_samples(rt, args, model);
}

Task<Status> predict(Runtime& rt, const PredictArgs& args, const apply::LoadedModel& model, bool tells) {
  const ModelTask task = model.input.task;
  TR_CO_RETURN_IF_ERROR(check_task(args, task));
  if (task == ModelTask::kLanguage) co_return co_await predict_text(rt, args, model, tells);
  if (!args.filters.empty()) {
    TR_CO_ASSIGN_OR_RETURN(const data::Picture sheet, apply::filter_sheet(model));
    TR_CO_RETURN_IF_ERROR(co_await write_picture(rt, args.filters, sheet));
  }
  if (task == ModelTask::kClassify) co_return co_await predict_classes(rt, args, model, tells);
  TR_CO_RETURN_IF_ERROR(check_no_csv(args));
  co_return co_await predict_pictures(rt, args, model, tells);
}

ModelUse use_of(const PredictArgs& args) {
  ModelUse use;
  use.name = "predict";
  use.check_first = [&args](Runtime& rt) { return check_outputs(rt, args); };
  use.check_ranks = [&args](Runtime& rt, const apply::LoadedModel& model, const parallel::Mesh& mesh) {
    return check_ranks(rt, args, model, mesh);
  };
  use.run = [&args](Runtime& rt, const apply::LoadedModel& model, bool tells) {
    return predict(rt, args, model, tells);
  };
  return use;
}

int run_predict(const PredictArgs& args) {
  TrainedArgs trained = args.model;
  trained.source.needs_samples = args.input.empty();
  trained.source.needs_text = false;
  return use_model(std::move(trained), use_of(args));
}

}  // namespace

std::function<int()> add_predict(Options& app) {
  auto args = std::make_shared<PredictArgs>();
  add_trained_options(app, args->model);
  const auto sample = [&](Option* option) { args->sample_options.push_back(option); };
  const auto text = [&](Option* option) { args->text_options.push_back(option); };
  sample(app.add_option("--part", args->part,
                        "Samples of the job's data to predict: test, validation or train"));
  sample(
      app.add_option("--input", args->input,
                     "Your own samples: an image (PNG, JPEG), a folder of images, an .npy or a .csv file"));
  sample(app.add_option("--samples", args->samples,
                        "Number of samples; 0: all. Default: 32 of a part, all of --input")
             ->check(zero_or_more()));
  sample(app.add_option("--csv", args->csv, "Classifiers: write the predictions to this CSV file"));
  sample(app.add_option("--png", args->png,
                        "Autoencoders: write inputs above their reconstructions to this PNG file"));
  sample(app.add_option("--filters", args->filters, "Write the filters of the first layer to this PNG file"));
  text(app.add_option("--prompt", args->text.prompt, "Language models: the text to continue"));
  text(app.add_option("--tokens", args->text.tokens, "Number of tokens to generate. Default: 200"));
  text(app.add_option("--temperature", args->text.temperature,
                      "Sampling temperature; 0: always the most likely token. Default: 0.8"));
  text(app.add_option("--top-k", args->text.top_k, "Sample from the k most likely tokens; 0: all"));
  text(app.add_option("--seed", args->text.seed, "Seed of the sampling. Default: 1"));
  app.add_flag("--json", args->json, "As JSON on standard output");
  app.add_flag("--quiet", args->quiet, "Print no progress");
  app.footer(
      "Classifiers print one line per sample, language models continue a text, autoencoders reconstruct\n"
      "their samples. Images of another size are scaled and cropped as in training. A model that is too "
      "large\n"
      "for one process: --mesh model=2, or stage=2. docs/how_to_predict.md");
  return [args] { return run_predict(*args); };
}

}  // namespace trireme::cli
