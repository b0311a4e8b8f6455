#include "trireme/base/utf8.h"

#include <charconv>

namespace trireme {
namespace {

struct Lead {
  unsigned char from, to;           // first byte
  std::size_t length;               // bytes in all
  unsigned char second, second_to;  // the second byte's range; those after it are 80..BF
};
constexpr Lead kLeads[] = {
    {0x00, 0x7F, 1, 0x00, 0xFF}, {0xC2, 0xDF, 2, 0x80, 0xBF}, {0xE0, 0xE0, 3, 0xA0, 0xBF},
    {0xE1, 0xEC, 3, 0x80, 0xBF}, {0xED, 0xED, 3, 0x80, 0x9F}, {0xEE, 0xEF, 3, 0x80, 0xBF},
    {0xF0, 0xF0, 4, 0x90, 0xBF}, {0xF1, 0xF3, 4, 0x80, 0xBF}, {0xF4, 0xF4, 4, 0x80, 0x8F},
};

unsigned char byte_at(std::string_view text, std::size_t i) { return static_cast<unsigned char>(text[i]); }

bool matches(const Lead& lead, std::string_view text) {
  if (byte_at(text, 0) < lead.from || byte_at(text, 0) > lead.to || text.size() < lead.length) return false;
  for (std::size_t i = 1; i < lead.length; ++i) {
    const unsigned char least = i == 1 ? lead.second : 0x80, most = i == 1 ? lead.second_to : 0xBF;
    if (byte_at(text, i) < least || byte_at(text, i) > most) return false;
  }
  return true;
}

}  // namespace

std::size_t utf8_length(std::string_view text) {
  if (text.empty()) return 0;
  for (const Lead& lead : kLeads)
    if (matches(lead, text)) return lead.length;
  return 0;
}

bool is_utf8(std::string_view text) {
  while (!text.empty()) {
    const std::size_t length = utf8_length(text);
    if (length == 0) return false;
    text.remove_prefix(length);
  }
  return true;
}

std::string escape_bytes(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const std::size_t length = utf8_length(text);
    if (length == 0)
      out += fmt::format("\\x{:02x}", byte_at(text, 0));
    else if (text[0] == '\\')
      out += "\\\\";
    else
      out += text.substr(0, length);
    text.remove_prefix(length == 0 ? 1 : length);
  }
  return out;
}

Result<std::string> unescape_bytes(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    if (text[0] != '\\') {
      out += text[0];
      text.remove_prefix(1);
      continue;
    }
    unsigned byte = 0;
    const char* const digits = text.data() + 2;
    if (text.starts_with("\\\\")) {
      out += '\\';
      text.remove_prefix(2);
    } else if (text.starts_with("\\x") && text.size() >= 4 &&
               std::from_chars(digits, digits + 2, byte, 16).ptr == digits + 2) {
      out += static_cast<char>(byte);
      text.remove_prefix(4);
    } else {
      return error(Code::kCorrupt, "[utf8] got a lone backslash before '{}', expected \\\\ or \\xHH",
                   text.substr(1, 8));
    }
  }
  return out;
}

}  // namespace trireme
