#include <cstdio>

#include "trireme/cli/command.h"

int main(int argc, char** argv) {
  using trireme::cli::Command;
  CLI::App app("Trireme trains deep networks on the machines you have.", "trireme");
  app.require_subcommand(1);
  app.failure_message([](const CLI::App* failed, const CLI::Error& e) {
    return fmt::format(
        "error: {}\nSee 'trireme {}--help'.\n", e.what(),
        failed->get_subcommands().empty() ? "" : failed->get_subcommands().front()->get_name() + " ");
  });
  int code = trireme::cli::kExitOk;
  for (const Command& command : trireme::cli::command_table()) {
    CLI::App* sub = app.add_subcommand(command.name, command.doc);
    sub->callback([&code, run = command.add(*sub)] { code = run(); });
  }
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    const int status = app.exit(e);  // prints help, or the mistake
    return status == 0 ? trireme::cli::kExitOk : trireme::cli::kExitUsage;
  }
  return code;
}
