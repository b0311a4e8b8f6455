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

Task<Status> check(const EvalArgs& args, const apply::LoadedModel& model) {
  TR_CO_ASSIGN_OR_RETURN(const engine::Part part, engine::parse_part(args.part));
  co_return apply::check_part(model, part);
}

Task<Status> evaluate(runtime::Runtime& rt, const EvalArgs& args, const apply::LoadedModel& model,
                      bool tells) {
  TR_CO_ASSIGN_OR_RETURN(const engine::Part part, engine::parse_part(args.part));
  apply::BatchProgress progress = batch_progress(args.quiet || !tells);
  const Result<apply::Score> score = co_await apply::score_model(rt, model, part, std::move(progress));
  if (!score.ok()) co_return score.status();
  if (!tells) co_return Status();
  const std::string text =
      args.json ? apply::to_json(*score, model).dump(2) + "\n" : apply::to_text(*score, model);
  std::fputs(text.c_str(), stdout);
  co_return Status();
}

Task<Status> check_options(const EvalArgs& args) { co_return engine::parse_part(args.part).status(); }

ModelUse use_of(const EvalArgs& args) {
  ModelUse use;
  use.name = "eval";
  use.check_first = [&args](auto&) { return check_options(args); };
  use.check_ranks = [&args](auto&, const auto& model, auto&) { return check(args, model); };
  use.run = [&args](auto& rt, const auto& model, bool tells) { return evaluate(rt, args, model, tells); };
  return use;
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
      "2: wrong usage. A model that is too large for one process: --mesh model=2, or stage=2.");
  return [args] { return use_model(args->model, use_of(*args)); };
}

}  // namespace trireme::cli
