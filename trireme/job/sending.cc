#include "trireme/job/sending.h"

#include <utility>

namespace trireme::job {
namespace {

using Kind = Sending::Kind;

constexpr std::pair<const char*, Kind> kWords[] = {{"none", Kind::kDense},
                                                   {"auto", Kind::kAuto},
                                                   {"factors", Kind::kFactors},
                                                   {kLowRankWord, Kind::kLowRank}};
constexpr const char* kMixedWord = "mixed";

}  // namespace

Result<Sending> parse_sending(std::string_view word) {
  std::string known;
  for (const auto& [name, kind] : kWords) {
    if (word == name) return Sending{kind, nullptr};
    known += fmt::format("{}{}", known.empty() ? "" : ", ", name);
  }
  if (word == kMixedWord) return Sending{Kind::kMixed, nullptr};
  for (const codec::CodecRow& row : codec::codec_table()) {
    if (word == row.name) return Sending{Kind::kCoded, &row};
    known += fmt::format(", {}", row.name);
  }
  return error(Code::kNotFound, "one of: {}", known);
}

std::string word_of(const Sending& sending) {
  if (sending.codec != nullptr) return sending.codec->name;
  for (const auto& [name, kind] : kWords)
    if (kind == sending.kind) return name;
  return kMixedWord;
}

Sending sending_of(const Job& job) { return sending_of(job, ""); }

Sending sending_of(const Job& job, std::string_view chosen) {
  const auto parsed = parse_sending(chosen.empty() ? std::string_view(job.parallel.codec) : chosen);
  return parsed.ok() ? *parsed : Sending();
}

}  // namespace trireme::job
