// Sending: in what form the gradients of a job travel, which jobs and plans say in one word (parallel.codec).
#pragma once

#include <string>
#include <string_view>

#include "trireme/codec/codec.h"
#include "trireme/job/job.h"

namespace trireme::job {

struct Sending {
  enum class Kind : std::uint8_t {
    kDense,    // "none": as they are
    kCoded,    // by a codec, which the word names
    kLowRank,  // "powersgd": matrices as two thin ones
    kFactors,  // "factors": as the two factors that they are products of
    kMixed,    // "mixed": each parameter's by what is cheapest for it; only plans say so
    kAuto,     // "auto": chosen by cost before the first step; only jobs say so
  };
  Kind kind = Kind::kDense;
  const codec::CodecRow* codec = nullptr;  // kCoded

  bool is(Kind other) const { return kind == other; }
  bool operator==(const Sending&) const = default;
};

inline constexpr const char* kLowRankWord = "powersgd";

// kNotFound lists the words that jobs may use.
Result<Sending> parse_sending(std::string_view word);
std::string word_of(const Sending& sending);
// As the job says; a word that check_job() refuses is kDense.
Sending sending_of(const Job& job);
// As the plan of a job has chosen, whose word is empty where nothing was to be chosen.
Sending sending_of(const Job& job, std::string_view chosen);

}  // namespace trireme::job
