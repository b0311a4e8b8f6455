// Options: what a command says about its options, and Option, one of them.
//
// CLI11 parses. options.cc alone includes it: its code takes as long to compile as ten files of ours,
// wherever it is used.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace CLI {  // NOLINT(readability-identifier-naming): CLI11's own
class App;
class Option;
}  // namespace CLI

namespace trireme::cli {

// What a value must be. `run` may change the text; what it returns is said, empty: it is fine.
struct Check {
  std::function<std::string(std::string&)> run;
  std::string name;  // shown by --help beside the option: "1 to 64"
};
Check one_of(std::vector<std::string> names);

class Option {
 public:
  explicit Option(CLI::Option* option) : option_(option) {}

  Option* required();
  Option* check(const Check& check);
  Option* type_name(const std::string& name);
  Option* group(const std::string& name);  // heading in --help; empty: not listed
  Option* delimiter(char between);         // a word may hold several values
  Option* show_default();
  Option* needs(Option* other);
  Option* excludes(Option* other);

  bool given() const;
  bool is_required() const;
  bool is_positional() const;
  bool is_listed() const;
  std::string name() const;                     // "--workers", "job"
  std::vector<std::string> long_names() const;  // "--workers"
  std::string doc() const;

 private:
  CLI::Option* option_;
};

// Why a command line does not parse.
struct ParseFailure {
  enum Kind { kHelp, kMissing, kUnexpected, kOther } kind;  // kHelp: asked for; it has been printed
  std::string said;                                         // by CLI11
};

class Options {
 public:
  Options(const std::string& doc, const std::string& name);
  ~Options();
  Options(const Options&) = delete;
  Options& operator=(const Options&) = delete;

  // `name` is "--workers", or "job" for a word without dashes. T: a text, a number or a list of them, or an
  // optional one; options.cc has the list.
  template <class T>
  Option* add_option(const std::string& name, T& value, const std::string& doc = "");
  Option* add_flag(const std::string& name, bool& value, const std::string& doc = "");
  Options* add_subcommand(const std::string& name, const std::string& doc);
  Options* group(const std::string& name);
  Options* alias(const std::string& name);
  void footer(const std::string& text);
  void require_subcommand();
  void callback(std::function<void()> run);  // after parsing, if it was asked for

  // Runs the callbacks of what was asked for, or says why not. Once.
  std::optional<ParseFailure> parse(const std::vector<std::string>& words);

  bool parsed() const;
  std::string name() const;
  bool is_listed() const;
  const Options* parent() const { return parent_; }
  const Option* find_option(const std::string& name) const;  // null: there is none
  std::vector<const Option*> options() const;
  std::vector<const Options*> subcommands() const;
  const Options* chosen() const;               // the subcommand that was asked for; null: none
  std::vector<std::string> left_over() const;  // words that nothing took, of subcommands too

 private:
  Options(Options* parent, CLI::App* app);
  Option* keep(CLI::Option* option);

  std::unique_ptr<CLI::App> owned_;  // of the outermost
  CLI::App* app_;
  Options* parent_ = nullptr;
  std::vector<std::unique_ptr<Option>> options_;
  std::vector<std::unique_ptr<Options>> subcommands_;
};

}  // namespace trireme::cli
