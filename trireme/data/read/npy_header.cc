#include "trireme/data/read/npy_header.h"

#include <charconv>

#include "trireme/tensor/shape.h"

namespace trireme::data {
namespace {

class HeaderReader {
 public:
  HeaderReader(std::string_view text, std::string_view source, std::size_t offset)
      : text_(text), source_(source), offset_(offset) {}

  Result<NpyHeader> read() {
    NpyHeader header;
    unsigned seen = 0;
    if (!take('{')) return fail("expected '{'");
    while (!take('}')) {
      TR_ASSIGN_OR_RETURN(const std::string key, quoted());
      if (!take(':')) return fail("expected ':'");
      unsigned bit = 0;
      if (key == "descr") {
        bit = 1;
        skip_space();
        if (at_ < text_.size() && text_[at_] == '[') return fail("records are not read; save plain arrays");
        TR_ASSIGN_OR_RETURN(header.descr, quoted());
      } else if (key == "fortran_order") {
        bit = 2;
        TR_ASSIGN_OR_RETURN(header.fortran_order, boolean());
      } else if (key == "shape") {
        bit = 4;
        TR_ASSIGN_OR_RETURN(header.shape, shape());
      } else {
        return fail(fmt::format("unknown key '{}'", key));
      }
      if ((seen & bit) != 0) return fail(fmt::format("'{}' occurs twice", key));
      seen |= bit;
      if (take(',')) continue;
      if (!take('}')) return fail("expected ',' or '}'");
      break;
    }
    skip_space();
    if (at_ != text_.size()) return fail("text after the dictionary");
    if (seen != 7) return fail("expected descr, fortran_order and shape");
    return header;
  }

 private:
  Status fail(std::string what) const {
    return error(Code::kCorrupt, "[data] {}, offset {}: bad NPY header: {}", source_, offset_ + at_, what);
  }
  void skip_space() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n' || text_[at_] == '\t')) ++at_;
  }
  bool take(char c) {
    skip_space();
    if (at_ >= text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  Result<std::string> quoted() {
    skip_space();
    if (at_ >= text_.size() || (text_[at_] != '\'' && text_[at_] != '"'))
      return fail("expected a quoted word");
    const std::size_t end = text_.find(text_[at_], at_ + 1);
    if (end == std::string_view::npos) return fail("a quote without end");
    std::string word(text_.substr(at_ + 1, end - at_ - 1));
    at_ = end + 1;
    return word;
  }
  Result<bool> boolean() {
    skip_space();
    for (const auto& [word, value] : {std::pair<std::string_view, bool>{"True", true}, {"False", false}})
      if (text_.substr(at_).starts_with(word)) {
        at_ += word.size();
        return value;
      }
    return fail("expected True or False");
  }
  Result<std::vector<std::int64_t>> shape() {
    std::vector<std::int64_t> dims;
    if (!take('(')) return fail("expected '('");
    while (!take(')')) {
      skip_space();
      std::int64_t size = 0;
      const char* begin = text_.data() + at_;
      const auto [end, code] = std::from_chars(begin, text_.data() + text_.size(), size);
      if (code != std::errc() || size < 0) return fail("expected a size");
      at_ += static_cast<std::size_t>(end - begin);
      dims.push_back(size);
      if (dims.size() > static_cast<std::size_t>(kMaxRank))
        return fail(fmt::format("more than {} dimensions", kMaxRank));
      if (take(',')) continue;
      if (!take(')')) return fail("expected ',' or ')'");
      break;
    }
    return dims;
  }

  std::string_view text_, source_;
  std::size_t offset_, at_ = 0;
};

}  // namespace

Result<NpyHeader> parse_npy_header(std::string_view text, std::string_view source, std::size_t offset) {
  return HeaderReader(text, source, offset).read();
}

}  // namespace trireme::data
