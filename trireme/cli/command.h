// Command: a row of the command table. One file per command: it parses, calls library functions, prints.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "trireme/base/status.h"
#include "trireme/cli/options.h"
#include "trireme/start/exit_code.h"
#include "trireme/start/places.h"

namespace trireme::cli {

// The same for every command (docs/errors.md).
using start::exit_code_of;
using start::kExitFailed;
using start::kExitOk;
using start::kExitStopped;
using start::kExitUsage;

struct Command {
  const char* name;
  const char* group;  // heading in --help; empty: not listed
  const char* doc;
  // Adds options to `app` and returns what runs after parsing; its result is the exit code.
  std::function<int()> (*add)(Options& app);
};
std::span<const Command> command_table();

// The one place that reads the environment. Null when unset.
const char* environment(const char* name);

// As this environment says.
start::Places places();

// An error message as it is shown on a terminal: without the "[area] " that says which folder it comes from.
// Logs and error files keep it.
std::string without_areas(std::string_view message);

// Prints "error: ..." on standard error and returns the exit code for it.
int print_error(const Status& status);

}  // namespace trireme::cli
