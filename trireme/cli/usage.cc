#include "trireme/cli/usage.h"

#include <fmt/format.h>
#include <algorithm>
#include <cctype>
#include <optional>

#include "trireme/base/near_names.h"
#include "trireme/job/job.h"

namespace trireme::cli {
namespace {

// Options of other trainers, by the job key that does the same here. Other keys are found by their last part.
struct Habit {
  std::string_view option, key;
};
constexpr Habit kHabits[] = {
    {"lr", "train.optimizer.lr"},
    {"learning_rate", "train.optimizer.lr"},
    {"optimizer", "train.optimizer.kind"},
    {"optim", "train.optimizer.kind"},
    {"wd", "train.optimizer.weight_decay"},
    {"batch", "train.batch"},
    {"batch_size", "train.batch"},
    {"epoch", "train.epochs"},
    {"num_epochs", "train.epochs"},
    {"max_steps", "train.steps"},
    {"iterations", "train.steps"},
    {"seed", "train.seed"},
    {"dtype", "train.precision"},
    {"data", "data.path"},
    {"dataset", "data.path"},
    {"data_dir", "data.path"},
    {"path", "data.path"},
    {"test", "data.test"},
    {"validation", "data.validation"},
    {"model", "model.name"},
    {"name", "name"},
};

// Options that are spelled otherwise here.
struct Instead {
  std::string_view option, use;
};
constexpr Instead kInstead[] = {
    {"num_workers", "--workers"}, {"nproc", "--workers"},      {"np", "--workers"},
    {"gpu", "--device cuda"},     {"gpus", "--device cuda"},   {"cuda", "--device cuda"},
    {"output", "--run-dir"},      {"output_dir", "--run-dir"}, {"logdir", "--run-dir"},
    {"hostfile", "--hosts"},
};

const Options& innermost(const Options& app) {
  return app.chosen() == nullptr ? app : innermost(*app.chosen());
}

// "trireme checkpoint diff"
std::string full_name(const Options& app) {
  return app.parent() == nullptr ? app.name() : full_name(*app.parent()) + " " + app.name();
}

std::vector<std::string> listed_subcommands(const Options& app) {
  std::vector<std::string> names;
  for (const Options* sub : app.subcommands())
    if (sub->is_listed()) names.push_back(sub->name());
  return names;
}

std::string near_name(std::string_view word, const std::vector<std::string>& names) {
  return did_you_mean(word, std::vector<std::string_view>(names.begin(), names.end()));
}

bool has_option(const Options& app, const std::string& name) { return app.find_option(name) != nullptr; }

// The job key that `option` (without dashes, with underscores) means.
std::optional<std::string_view> key_of(const std::string& option) {
  for (const Habit& h : kHabits)
    if (h.option == option) return h.key;
  std::optional<std::string_view> found;
  for (const job::JobKey& key : job::job_keys()) {
    if (key.path == option) return key.path;
    if (key.path.substr(key.path.rfind('.') + 1) != option) continue;
    if (found) return std::nullopt;  // of several tables
    found = key.path;
  }
  return found;
}

struct GivenOption {
  std::string name, value;  // "--epochs", "3" (or "")
};

// `word` as it stands in the command line, with the value that follows it.
GivenOption given_option(const std::string& word, const std::vector<std::string>& words) {
  const std::size_t equals = word.find('=');
  if (equals != std::string::npos) return {word.substr(0, equals), word.substr(equals + 1)};
  const auto at = std::find(words.begin(), words.end(), word);
  const bool followed = at != words.end() && at + 1 != words.end() && !(at + 1)->starts_with('-');
  return {word, followed ? *(at + 1) : std::string()};
}

std::string plain_name(const std::string& option) {
  std::string name = option.substr(std::min(option.find_first_not_of('-'), option.size()));
  for (char& c : name) c = c == '-' ? '_' : static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return name;
}

std::string unknown_option(const Options& app, const GivenOption& given) {
  const std::string name = plain_name(given.name);
  const std::string what = fmt::format("unknown option '{}'", given.name);
  const bool only_data = app.name() == "eval" || app.name() == "predict";
  const std::optional<std::string_view> key = key_of(name);
  if (has_option(app, "--set") && key && (!only_data || key->starts_with("data.")))
    return fmt::format("{}; set the job's key: --set {}={}", what, *key,
                       given.value.empty() ? "VALUE" : given.value);
  for (const Instead& i : kInstead)
    if (i.option == name && has_option(app, std::string(i.use.substr(0, i.use.find(' ')))))
      return fmt::format("{}; use {}", what, i.use);
  std::vector<std::string> names = {"--help"};
  for (const Option* option : app.options())
    if (option->is_listed())
      for (const std::string& n : option->long_names()) names.push_back(n);
  return what + near_name(given.name, names);
}

// The first word that nothing takes.
std::string unexpected_word(const Options& app, const std::vector<std::string>& extras,
                            const std::vector<std::string>& words) {
  const auto option = std::find_if(extras.begin(), extras.end(), [](const std::string& word) {
    return word.size() > 1 && word.starts_with('-');
  });
  if (option != extras.end()) return unknown_option(app, given_option(*option, words));
  const std::string& word = extras.front();
  const std::vector<std::string> subs = listed_subcommands(app);
  if (subs.empty()) return fmt::format("unexpected argument '{}'", word);
  const std::string near = near_name(word, subs);
  return near.empty() ? fmt::format("'{}' is not one of: {}", word, fmt::join(subs, ", "))
                      : fmt::format("there is no '{} {}'{}", full_name(app), word, near);
}

std::string upper(std::string text) {
  for (char& c : text) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return text;
}

// What a command was not given.
std::string missing_word(const Options& app) {
  const std::vector<std::string> subs = listed_subcommands(app);
  for (const Option* option : app.options())
    if (option->is_required() && !option->given()) {
      const std::string name = option->is_positional() ? upper(option->name()) : option->name();
      return fmt::format("{} needs {}: {}", full_name(app), name, option->doc());
    }
  return fmt::format("{} needs one of: {}", full_name(app), fmt::join(subs, ", "));
}

// CLI11 says "Could not convert: --tokens = many" of numbers that have no check of their own.
std::string not_a_number(const std::string& said) {
  constexpr std::string_view kSaid = "Could not convert: ", kEquals = " = ";
  const std::size_t equals = said.find(kEquals);
  if (!said.starts_with(kSaid) || equals == std::string::npos) return said;
  return fmt::format("{}: got '{}', expected a number", said.substr(kSaid.size(), equals - kSaid.size()),
                     said.substr(equals + kEquals.size()));
}

}  // namespace

std::vector<std::string> with_help_words(std::vector<std::string> words) {
  if (words.empty() || words.front() != "help") return words;
  words.erase(words.begin());
  words.emplace_back("--help");
  return words;
}

std::string explain_unknown_command(const Options& app, std::string_view word) {
  if (word.starts_with('-')) return "";
  for (const Options* sub : app.subcommands())
    if (word == sub->name()) return "";
  const std::vector<std::string> names = listed_subcommands(app);
  const std::string near = near_name(word, names);
  const std::string hint =
      word.ends_with(".toml") ? fmt::format("To train a job file: trireme train {}\n", word) : "";
  return fmt::format("error: unknown command '{}'{}\n{}See 'trireme --help'.\n", word,
                     near.empty() ? fmt::format("; expected one of: {}", fmt::join(names, ", ")) : near,
                     hint);
}

std::string explain_mistake(const Options& app, const ParseFailure& failure,
                            const std::vector<std::string>& words) {
  const Options& inner = innermost(app);
  const std::vector<std::string> extras = app.left_over();
  const bool missing = failure.kind == ParseFailure::kMissing;
  std::string what = not_a_number(failure.said);
  if (!extras.empty() && (missing || failure.kind == ParseFailure::kUnexpected)) {
    what = unexpected_word(inner, extras, words);
  } else if (missing) {
    what = missing_word(inner);
  }
  return fmt::format("error: {}\nSee '{} --help'.\n", what, full_name(inner));
}

}  // namespace trireme::cli
