// What is said about a command line that does not parse: what is wrong with which word, and what to type
// instead.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "trireme/cli/options.h"

namespace trireme::cli {

// "help train" becomes "train --help"; everything else stays.
std::vector<std::string> with_help_words(std::vector<std::string> words);

// The first word is no command: the whole message. Empty: it is one, or an option.
std::string explain_unknown_command(const Options& app, std::string_view word);

// What `app` could not parse in `words`: the whole message. `failure` is no request for help.
std::string explain_mistake(const Options& app, const ParseFailure& failure,
                            const std::vector<std::string>& words);

}  // namespace trireme::cli
