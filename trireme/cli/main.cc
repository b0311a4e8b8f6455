#include <fmt/format.h>
#include <cstdio>

#include "trireme/base/version.h"
#include "trireme/cli/command.h"
#include "trireme/cli/usage.h"
#include "trireme/kernel/compiled_texts.h"
#include "trireme/runtime/real/exhausted.h"
#include "trireme/runtime/real/standard_streams.h"

namespace {

using trireme::cli::Command;
using trireme::cli::kExitOk;
using trireme::cli::kExitUsage;
using trireme::cli::Options;
using trireme::cli::ParseFailure;

int refuse(const std::string& message) {
  std::fputs(message.c_str(), stderr);
  return kExitUsage;
}

int run_command(int argc, char** argv) {
  Options app("Trireme trains deep networks on the machines you have.", "trireme");
  app.require_subcommand();
  bool version = false;  // answered below, wherever the parser would want a command
  app.add_flag("--version", version, "Print the version and exit");
  app.footer(
      "Help on one command: trireme help COMMAND. Without a job file `trireme train` trains a model on the\n"
      "built-in digits. First steps: docs/quick_start.md");
  trireme::kernel::compiled_texts().set_file(trireme::cli::places().text_cache);
  int code = kExitOk;
  for (const Command& command : trireme::cli::command_table()) {
    Options* sub = app.add_subcommand(command.name, command.doc)->group(command.group);
    sub->callback([&code, run = command.add(*sub)] { code = run(); });
  }
  const std::vector<std::string> words =
      trireme::cli::with_help_words(std::vector<std::string>(argv + 1, argv + argc));
  if (!words.empty() && words.front() == "--version") {
    std::fputs(fmt::format("trireme {} ({})\n", trireme::version(), trireme::build_id()).c_str(), stdout);
    return kExitOk;
  }
  if (!words.empty())
    if (const std::string message = trireme::cli::explain_unknown_command(app, words.front());
        !message.empty())
      return refuse(message);
  if (const auto failure = app.parse(words)) {
    if (failure->kind == ParseFailure::kHelp) return kExitOk;
    return refuse(trireme::cli::explain_mistake(app, *failure, words));
  }
  return code;
}

}  // namespace

int main(int argc, char** argv) {
  trireme::runtime::end_plainly_when_exhausted(trireme::cli::kExitFailed);
  trireme::runtime::take_closed_streams();
  const int code = run_command(argc, argv);
  const trireme::Status written = trireme::runtime::flush_standard_output();
  if (written.ok()) return code;
  const int failed = trireme::cli::print_error(written);
  return code == trireme::cli::kExitOk ? failed : code;
}
