// StepProgress: which actions of a step's program may begin. On the loop of one rank; starts nothing itself.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "trireme/plan/step_program.h"

namespace trireme::engine {

// Parts of cells are told from outside when they are done; all other actions begin when what they wait for is
// done. Sums may have an order that all ranks share, with so many at once at most: the first one that has not
// ended is under way or next on every rank, so nobody waits for a sum that another rank holds back.
class StepProgress {
 public:
  // `sums_at_once` 0: sums begin when they are ready, any number at once.
  StepProgress(plan::StepProgram program, std::size_t sums_at_once);

  const plan::StepProgram& program() const { return program_; }
  const plan::Action& action(std::uint32_t index) const { return program_.actions[index]; }

  // A new step: nothing is done. Nothing of the one before is left.
  void begin();
  // A part of a cell, counted from the first cell of the program; again is nothing new.
  void computed(std::size_t cell, std::int32_t part);
  void computed_all();
  // The next action to begin now; nullopt: none may.
  std::optional<std::uint32_t> next();
  void ended(std::uint32_t action);
  // What has not begun never will, until the next step.
  void drop_waiting();

  bool is_done(std::uint32_t action) const { return done_[action]; }
  // Actions that are not parts of cells: begun, and not done yet or not even begun.
  std::size_t under_way() const { return under_way_; }
  std::size_t left() const { return left_; }

 private:
  bool is_compute(std::uint32_t a) const { return action(a).kind == plan::ActionKind::kCompute; }
  void set_done(std::uint32_t action);
  bool may_begin(std::uint32_t action) const;

  const plan::StepProgram program_;
  const std::size_t sums_at_once_;
  std::int32_t num_parts_ = 0;
  std::vector<std::vector<std::uint32_t>> after_;  // per action: what waits for it
  std::vector<std::uint32_t> sums_;                // in program order
  std::vector<std::uint32_t> waits_;               // per action: how many it still waits for
  std::vector<std::uint32_t> ready_;               // may begin, in the order in which they became so
  std::vector<bool> done_;
  bool dropped_ = false;
  std::size_t next_sum_ = 0, sums_under_way_ = 0, under_way_ = 0, left_ = 0;
};

}  // namespace trireme::engine
