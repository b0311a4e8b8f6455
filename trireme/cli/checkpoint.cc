// `trireme checkpoint info|verify|diff PATH [PATH]`: what is in checkpoints, whether they are whole, how two
// differ.
#include <cstdio>

#include "trireme/cli/command.h"
#include "trireme/io/report.h"
#include "trireme/record/run_record.h"
#include "trireme/runtime/real/real_runtime.h"

namespace trireme::cli {
namespace {

using runtime::Runtime;
using runtime::Task;

struct CheckpointArgs {
  std::string path, second;
  bool json = false;
};

// What is printed, and the exit code that goes with it.
struct Answer {
  std::string text;
  int code = kExitOk;
};

template <typename T>
std::string shown(const T& found, bool json) {
  return json ? io::to_json(found).dump(2) + "\n" : io::to_text(found);
}

// For a run folder it also says how the run stands.
Task<Result<Answer>> info(Runtime& rt, CheckpointArgs args) {
  const Result<record::RunRecord> run = co_await record::read_run_record(rt, args.path);
  const Result<io::CheckpointInfo> found = co_await io::describe_checkpoint(rt, args.path);
  if (!found.ok() && run.ok())
    co_return error(found.status().code(), "{} (the run: {})", found.status().message(),
                    record::describe(*run));
  if (!found.ok()) co_return found.status();
  Answer answer;
  answer.text = shown(*found, args.json);
  if (run.ok() && args.json) {
    Json json = io::to_json(*found);
    json["run"] = record::to_json(*run);
    answer.text = json.dump(2) + "\n";
  } else if (run.ok()) {
    answer.text = fmt::format("run      {}\n{}", record::describe(*run), answer.text);
  }
  co_return answer;
}

Task<Result<Answer>> verify(Runtime& rt, CheckpointArgs args) {
  const Result<std::vector<io::VerifiedCheckpoint>> found = co_await io::verify_checkpoint(rt, args.path);
  if (!found.ok()) co_return found.status();
  Answer answer;
  answer.text = shown(*found, args.json);
  answer.code = io::all_ok(*found) ? kExitOk : kExitFailed;
  co_return answer;
}

Task<Result<Answer>> diff(Runtime& rt, CheckpointArgs args) {
  const Result<io::CheckpointDiff> found = co_await io::diff_checkpoints(rt, args.path, args.second);
  if (!found.ok()) co_return found.status();
  Answer answer;
  answer.text = shown(*found, args.json);
  answer.code = io::all_equal(found->tensors) ? kExitOk : kExitFailed;
  co_return answer;
}

using Subcommand = Task<Result<Answer>> (*)(Runtime&, CheckpointArgs);

Task<void> run_and_print(Runtime& rt, Subcommand subcommand, CheckpointArgs args, int& code) {
  const Result<Answer> answer = co_await subcommand(rt, args);
  if (!answer.ok()) {
    // A path that is not there is a mistake of the caller, not a damaged checkpoint.
    code = print_error(answer.status());
    if (answer.status().code() == Code::kNotFound) code = kExitUsage;
    co_return;
  }
  std::fputs(answer->text.c_str(), stdout);
  code = answer->code;
}

int run(Subcommand subcommand, const CheckpointArgs& args) {
  runtime::RealOptions real;
  real.name = "checkpoint";
  real.spin_ns = 0;
  real.log_sink = [](std::string_view line) { std::fputs(fmt::format("{}\n", line).c_str(), stderr); };
  const auto rt = runtime::make_real_runtime(real);
  int code = kExitFailed;
  rt->run(run_and_print(*rt, subcommand, args, code));
  return code;
}

struct Row {
  const char* name;
  const char* doc;
  Subcommand run;
  bool takes_two;
};
constexpr Row kRows[] = {
    {"info", "Show what a checkpoint or a .safetensors file holds.", info, false},
    {"verify", "Read every file, check every hash, look for values that are not finite (NaN, infinity).",
     verify, false},
    {"diff", "Compare two checkpoints tensor by tensor. Exit code 0: bitwise equal; 1: different.", diff,
     true},
};
constexpr const char* kPathDoc =
    "A run folder, a checkpoints folder, one step-<n> of it, or a .safetensors file";

}  // namespace

std::function<int()> add_checkpoint(Options& app) {
  app.require_subcommand();
  auto args = std::make_shared<CheckpointArgs>();
  auto chosen = std::make_shared<Subcommand>(nullptr);
  for (const Row& row : kRows) {
    Options* sub = app.add_subcommand(row.name, row.doc);
    sub->add_option("path", args->path, kPathDoc)->required();
    if (row.takes_two) sub->add_option("second", args->second, "Second checkpoint to compare")->required();
    sub->add_flag("--json", args->json, "As JSON");
    sub->callback([chosen, subcommand = row.run] { *chosen = subcommand; });
  }
  return [args, chosen] { return run(*chosen, *args); };
}

}  // namespace trireme::cli
