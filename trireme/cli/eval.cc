// `trireme eval RUN`: a trained model against a part of its data.
#include <cstdio>

#include "trireme/cli/command.h"
#include "trireme/cli/predict_model.h"

namespace trireme::cli {
namespace {

using runtime::Task;

struct EvalArgs {
  TrainedArgs model;
  std::string part = "test";
  bool json = false, quiet = false;
};

Task<Status> evaluate(runtime::Runtime& rt, const EvalArgs& args) {
  TR_CO_ASSIGN_OR_RETURN(const engine::Part part, engine::parse_part(args.part));
  const Result<apply::LoadedModel> model = co_await load_trained(rt, args.model);
  if (!model.ok()) co_return model.status();
  apply::BatchProgress progress = batch_progress(args.quiet);
  const Result<apply::Score> score = co_await apply::score_model(rt, *model, part, std::move(progress));
  if (!score.ok()) co_return score.status();
  const std::string text =
      args.json ? apply::to_json(*score, *model).dump(2) + "\n" : apply::to_text(*score, *model);
  std::fputs(text.c_str(), stdout);
  co_return Status();
}

}  // namespace

std::function<int()> add_eval(Options& app) {
  auto args = std::make_shared<EvalArgs>();
  add_trained_options(app, args->model);
  app.add_option("--part", args->part, "Samples to evaluate on: test, validation or train")->show_default();
  app.add_flag("--json", args->json, "As JSON");
  app.add_flag("--quiet", args->quiet, "Print no progress");
  app.footer(
      "Prints loss and accuracy; for classifiers also counts per class and the confusion between classes.\n"
      "On the same data they equal the trainer's last evaluation bit for bit. Exit code 1: no checkpoint;\n"
      "2: wrong usage.");
  return [args] { return run_and_report("eval", [args](auto& rt) { return evaluate(rt, *args); }); };
}

}  // namespace trireme::cli
