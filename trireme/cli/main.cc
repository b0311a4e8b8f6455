#include <cstdio>

#include "trireme/cli/calibration_file.h"
#include "trireme/cli/command.h"
#include "trireme/kernel/cuda/compiled_texts.h"
#include "trireme/runtime/real/exhausted.h"
#include "trireme/runtime/real/standard_streams.h"

namespace {

// CLI11 says of a misspelt command only that one is missing.
bool is_unknown_command(const CLI::App& app, std::string_view word) {
  std::string names;
  for (const CLI::App* sub : app.get_subcommands([](const CLI::App*) { return true; })) {
    if (word.starts_with('-') || word == sub->get_name()) return false;
    if (!sub->get_group().empty()) names += (names.empty() ? "" : ", ") + sub->get_name();
  }
  const std::string hint =
      word.ends_with(".toml") ? fmt::format("To train a job file: trireme train {}\n", word) : "";
  std::fputs(fmt::format("error: unknown command '{}'; expected one of: {}\n{}See 'trireme --help'.\n", word,
                         names, hint)
                 .c_str(),
             stderr);
  return true;
}

int run_command(int argc, char** argv) {
  using trireme::cli::Command;
  CLI::App app("Trireme trains deep networks on the machines you have.", "trireme");
  app.require_subcommand(1);
  app.failure_message([](const CLI::App* failed, const CLI::Error& e) {
    return fmt::format(
        "error: {}\nSee 'trireme {}--help'.\n", e.what(),
        failed->get_subcommands().empty() ? "" : failed->get_subcommands().front()->get_name() + " ");
  });
  trireme::kernel::cuda::compiled_texts().set_file(trireme::cli::text_cache_path());
  int code = trireme::cli::kExitOk;
  for (const Command& command : trireme::cli::command_table()) {
    CLI::App* sub = app.add_subcommand(command.name, command.doc);
    sub->callback([&code, run = command.add(*sub)] { code = run(); });
  }
  if (argc > 1 && is_unknown_command(app, argv[1])) return trireme::cli::kExitUsage;
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    const int status = app.exit(e);  // prints help, or the mistake
    return status == 0 ? trireme::cli::kExitOk : trireme::cli::kExitUsage;
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
