// Whether a standard stream goes to a terminal, and how wide that is.
#pragma once

namespace trireme::runtime {

enum class StandardStream { kOutput = 1, kError = 2 };

bool is_terminal(StandardStream stream);
// Asked anew at every call: windows change their size. 0: no terminal, or one that does not say.
int terminal_columns(StandardStream stream);

}  // namespace trireme::runtime
