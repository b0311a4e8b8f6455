// Programs ready to run, kept by what they depend on, so that a steady state builds and allocates nothing.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "trireme/collective/schedule.h"

namespace trireme::comm {

// A program turned round for the runner: who waits for a step instead of whom a step waits for.
struct ReadyProgram {
  const collective::Algorithm* algorithm = nullptr;
  collective::RankProgram program;             // deps are dropped: steps keep only how many they have
  std::vector<std::uint32_t> first_successor;  // steps + 1 entries into successors
  std::vector<std::uint32_t> successors;
  std::vector<std::uint32_t> roots;  // steps without dependencies, in program order

  std::span<const std::uint32_t> successors_of(std::uint32_t step) const {
    return {successors.data() + first_successor[step], first_successor[step + 1] - first_successor[step]};
  }
};

Result<std::shared_ptr<const ReadyProgram>> make_ready_program(const collective::Algorithm& algorithm,
                                                               const collective::ScheduleSpec& spec,
                                                               int rank);

// The programs of one rank. Holds at most kMaxPrograms; the one not used for longest goes first.
class ProgramCache {
 public:
  static constexpr std::size_t kMaxPrograms = 64;

  // `algorithm` empty: the cheapest by `model`.
  Result<std::shared_ptr<const ReadyProgram>> get(const collective::ScheduleSpec& spec,
                                                  const std::string& algorithm, int rank,
                                                  const cost::CommModel& model);

 private:
  struct Entry {
    collective::ScheduleSpec spec;
    std::string algorithm;
    int rank;  // differs from call to call in sub-groups
    std::shared_ptr<const ReadyProgram> program;
    std::uint64_t used = 0;
  };
  std::vector<Entry> entries_;
  std::uint64_t clock_ = 0;
};

}  // namespace trireme::comm
