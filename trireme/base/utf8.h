// Bytes that should be UTF-8 and may not be: names of files, classes from data, words of a command line.
#pragma once

#include <string>
#include <string_view>

#include "trireme/base/status.h"

namespace trireme {

// Bytes of the character that `text` begins with; 0: it begins with none (RFC 3629: no overlong form, no
// surrogate, nothing above U+10FFFF).
std::size_t utf8_length(std::string_view text);
bool is_utf8(std::string_view text);

// UTF-8 that names every byte: one that belongs to no character becomes \xHH (lower case), a backslash two.
// The shell's printf '%b' and unescape_bytes turn it back.
std::string escape_bytes(std::string_view text);
// kCorrupt: a backslash that escape_bytes did not write.
Result<std::string> unescape_bytes(std::string_view text);

}  // namespace trireme
