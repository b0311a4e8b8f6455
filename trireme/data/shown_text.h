// Text of a file, as messages show it.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace trireme::data {

// At most `most` bytes of the text (then "..."): control bytes and bytes that are not ASCII or part of a
// whole UTF-8 character become \xHH, so that a message is never cut off and never changes the terminal.
std::string shown_text(std::string_view text, std::size_t most);

// Bytes of the character that `text` starts with; 0: no valid UTF-8 (RFC 3629: no overlong forms, no
// surrogates).
std::size_t char_bytes(std::string_view text);

}  // namespace trireme::data
