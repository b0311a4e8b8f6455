#include "trireme/cli/options.h"

#include <CLI/CLI.hpp>

namespace trireme::cli {

Check one_of(std::vector<std::string> names) {
  auto member = std::make_shared<CLI::Validator>(CLI::IsMember(std::move(names)));
  return {[member](std::string& text) { return (*member)(text); }, member->get_description()};
}

Option* Option::required() {
  option_->required();
  return this;
}
Option* Option::check(const Check& check) {
  option_->check(CLI::Validator(check.run, check.name));
  return this;
}
Option* Option::type_name(const std::string& name) {
  option_->type_name(name);
  return this;
}
Option* Option::group(const std::string& name) {
  option_->group(name);
  return this;
}
Option* Option::delimiter(char between) {
  option_->delimiter(between);
  return this;
}
Option* Option::show_default() {
  option_->capture_default_str();
  return this;
}
Option* Option::needs(Option* other) {
  option_->needs(other->option_);
  return this;
}
Option* Option::excludes(Option* other) {
  option_->excludes(other->option_);
  return this;
}

bool Option::given() const { return option_->count() > 0; }
bool Option::is_required() const { return option_->get_required(); }
bool Option::is_positional() const { return option_->get_positional(); }
bool Option::is_listed() const { return !option_->get_group().empty(); }
std::string Option::name() const { return option_->get_name(); }
std::vector<std::string> Option::long_names() const {
  std::vector<std::string> names;
  for (const std::string& name : option_->get_lnames()) names.push_back("--" + name);
  return names;
}
std::string Option::doc() const { return option_->get_description(); }

Options::Options(const std::string& doc, const std::string& name)
    : owned_(std::make_unique<CLI::App>(doc, name)), app_(owned_.get()) {}
Options::Options(Options* parent, CLI::App* app) : app_(app), parent_(parent) {}
Options::~Options() = default;

Option* Options::keep(CLI::Option* option) {
  return options_.emplace_back(std::make_unique<Option>(option)).get();
}

template <class T>
Option* Options::add_option(const std::string& name, T& value, const std::string& doc) {
  return keep(app_->add_option(name, value, doc));
}
#define TR_OPTION(...) \
  template Option* Options::add_option<__VA_ARGS__>(const std::string&, __VA_ARGS__&, const std::string&);
TR_OPTION(std::string)
TR_OPTION(std::vector<std::string>)
TR_OPTION(int)
TR_OPTION(std::int64_t)
TR_OPTION(std::uint64_t)
TR_OPTION(double)
#undef TR_OPTION

Option* Options::add_flag(const std::string& name, bool& value, const std::string& doc) {
  return keep(app_->add_flag(name, value, doc));
}
Options* Options::add_subcommand(const std::string& name, const std::string& doc) {
  // Its constructor is for this class alone.
  auto sub = std::unique_ptr<Options>(new Options(this, app_->add_subcommand(name, doc)));
  return subcommands_.emplace_back(std::move(sub)).get();
}
Options* Options::group(const std::string& name) {
  app_->group(name);
  return this;
}
Options* Options::alias(const std::string& name) {
  app_->alias(name);
  return this;
}
void Options::footer(const std::string& text) { app_->footer(text); }
void Options::require_subcommand() { app_->require_subcommand(1); }
void Options::callback(std::function<void()> run) { app_->callback(std::move(run)); }

std::optional<ParseFailure> Options::parse(const std::vector<std::string>& words) {
  try {
    app_->parse(std::vector<std::string>(words.rbegin(), words.rend()));  // it takes them from the back
  } catch (const CLI::RequiredError& e) {
    return ParseFailure{ParseFailure::kMissing, e.what()};
  } catch (const CLI::ExtrasError& e) {
    return ParseFailure{ParseFailure::kUnexpected, e.what()};
  } catch (const CLI::ParseError& e) {
    if (e.get_exit_code() != 0) return ParseFailure{ParseFailure::kOther, e.what()};
    app_->exit(e);  // prints help
    return ParseFailure{ParseFailure::kHelp, {}};
  }
  return std::nullopt;
}

bool Options::parsed() const { return app_->parsed(); }
std::string Options::name() const { return app_->get_name(); }
bool Options::is_listed() const { return !app_->get_group().empty(); }
const Option* Options::find_option(const std::string& name) const {
  for (const auto& option : options_)
    for (const std::string& own : option->long_names())
      if (own == name) return option.get();
  return nullptr;
}
std::vector<const Option*> Options::options() const {
  std::vector<const Option*> all;
  for (const auto& option : options_) all.push_back(option.get());
  return all;
}
std::vector<const Options*> Options::subcommands() const {
  std::vector<const Options*> all;
  for (const auto& sub : subcommands_) all.push_back(sub.get());
  return all;
}
const Options* Options::chosen() const {
  for (const auto& sub : subcommands_)
    if (sub->parsed()) return sub.get();
  return nullptr;
}
std::vector<std::string> Options::left_over() const { return app_->remaining(true); }

}  // namespace trireme::cli
