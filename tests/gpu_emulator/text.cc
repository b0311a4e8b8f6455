#include "tests/gpu_emulator/text.h"

#include <cctype>
#include <regex>
#include <set>
#include <string_view>

namespace gpu_emulator {
namespace {

// extern __shared__ T name[]; -> T* name = (T*)emulated_dynamic_shared;
std::string with_dynamic_shared(const std::string& text) {
  static const std::regex kDeclared(
      R"(extern\s+__shared__\s+((?:__align__|alignas)\([^)]*\)\s+)?([\w\s]*\w)\s+((?:__align__|alignas)\([^)]*\)\s+)?(\w+)\s*\[\s*\]\s*;)");
  return std::regex_replace(text, kDeclared, "$2* const $4 = ($2*)emulated_dynamic_shared;");
}

// Where the bracket that opens at `at` closes; strings do not count.
std::size_t closing(const std::string& text, std::size_t at) {
  int depth = 0;
  bool quoted = false;
  for (std::size_t i = at; i < text.size(); ++i) {
    if (quoted && text[i] == '\\') {
      ++i;
    } else if (text[i] == '"') {
      quoted = !quoted;
    } else if (!quoted && text[i] == '(') {
      ++depth;
    } else if (!quoted && text[i] == ')' && --depth == 0) {
      return i;
    }
  }
  return std::string::npos;
}

// "cvt.rn.f16.f32 %0, %1;" -> cvt_rn_f16_f32: the words, without operands.
std::string name_of_ptx(std::string_view code) {
  std::string name, word;
  const auto flush = [&] {
    if (!word.empty() && word[0] != '%') name += (name.empty() ? "" : "_") + word;
    word.clear();
  };
  for (std::size_t i = 0; i < code.size(); ++i) {
    if (code.substr(i, 2) == "%%") {  // a register of the machine, by name
      flush();
      ++i;
    } else if (std::isalnum(static_cast<unsigned char>(code[i])) != 0 || code[i] == '_' || code[i] == '%') {
      word += code[i];
    } else {
      flush();
    }
  }
  flush();
  return name;
}

// The inside of asm(...): literals, then operands "constraint"(expression) in order.
std::string call_of_ptx(const std::string& inside) {
  std::string code, operands;
  std::size_t i = 0;
  for (; i < inside.size() && inside[i] != ':'; ++i) {
    if (inside[i] != '"') continue;
    for (++i; i < inside.size() && inside[i] != '"'; ++i)
      if (inside[i] == '\\') {
        ++i;
        code += ' ';
      } else {
        code += inside[i];
      }
  }
  for (; i < inside.size(); ++i) {
    if (inside[i] != '(') continue;
    const std::size_t end = closing(inside, i);
    operands += (operands.empty() ? "" : ", ") + inside.substr(i + 1, end - i - 1);
    i = end;
  }
  return "emulated_ptx_" + name_of_ptx(code) + "(" + operands + ")";
}

std::string with_calls_for_ptx(const std::string& text) {
  static const std::regex kAsm(R"(\b(?:__)?asm(?:__)?\s*(?:__volatile__|volatile)?\s*\()");
  std::string out;
  std::size_t done = 0;
  for (auto at = std::sregex_iterator(text.begin(), text.end(), kAsm); at != std::sregex_iterator(); ++at) {
    const auto begin = static_cast<std::size_t>(at->position());
    const std::size_t open = begin + static_cast<std::size_t>(at->length()) - 1, end = closing(text, open);
    if (begin < done || end == std::string::npos) continue;
    out += text.substr(done, begin - done) + call_of_ptx(text.substr(open + 1, end - open - 1));
    done = end + 1;
  }
  return out + text.substr(done);
}

// Names of extern "C" __global__ functions; one that stands in two branches of an #if is one.
std::set<std::string> entries(const std::string& text) {
  static const std::regex kEntry(
      R"(extern\s+"C"\s+__global__\s+(?:void\s+)?(?:__launch_bounds__\s*\([^)]*\)\s*)?(?:void\s+)?(\w+)\s*\()");
  std::set<std::string> names;
  for (auto at = std::sregex_iterator(text.begin(), text.end(), kEntry); at != std::sregex_iterator(); ++at)
    names.insert((*at)[1]);
  return names;
}

}  // namespace

std::string to_host_text(const std::string& text) {
  std::string out = with_calls_for_ptx(with_dynamic_shared(text));
  for (const std::string& name : entries(text)) out += "\nEMULATED_ENTRY(" + name + ")";
  return out + "\n";
}

}  // namespace gpu_emulator
