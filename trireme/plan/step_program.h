// StepProgram: one step of a rank as a value, as a RankProgram is one collective of a rank. Pure.
//
// A program is a list of actions with dependencies. It is built from a spec, proved for all ranks together,
// priced by walking it, and drawn. Parts of a cell's computation are the runs of strands between two moments
// at which a bucket is first read or becomes final; nothing is unrolled below that. A timetable is a row of
// `step_table()`: a function from the spec to the program. Actions of one kind begin in program order, so the
// order of sums is the same on every rank.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "trireme/cost/traffic.h"
#include "trireme/parallel/cells.h"
#include "trireme/plan/plan.h"
#include "trireme/plan/slots.h"

namespace trireme::plan {

enum class ActionKind : std::uint8_t {
  kCompute,  // a part of a cell
  kSend,     // of a bucket's gradient or weights, or of activations, to `peer`
  kRecv,
  kSum,     // of a bucket, over all workers or by the servers
  kUpdate,  // of a bucket's parameters, by this rank
  kVote,    // what all ranks decide on together: loss, correct, stop, finite, norm
};
std::string_view action_name(ActionKind kind);

// Beside ranks: letters to them end without the receiver's program.
inline constexpr std::int32_t kServerPeers = -2, kOtherWorkers = -3;

struct Action {
  ActionKind kind = ActionKind::kCompute;
  parallel::Cell cell = {};  // compute
  std::int32_t part = -1;    // compute: counted from 0
  std::int32_t bucket = -1;  // sum, update; send and recv of a bucket
  std::int32_t peer = -1;    // send, recv: a rank, kServerPeers or kOtherWorkers; sum: kServerPeers, or all
  Slot slot = 0;             // sum, send, recv between ranks
  std::uint32_t first_dep = 0;  // into StepProgram::deps
  std::uint32_t num_deps = 0;

  std::string to_text() const;  // "compute shard 0 part 2", "sum bucket 3"
};

struct StepProgram {
  int rank = 0;
  std::vector<Action> actions;  // dependencies point backwards
  std::vector<std::uint32_t> deps;
  // {a, b}: action a of a step waits for action b of the step before.
  std::vector<std::pair<std::uint32_t, std::uint32_t>> carried;

  std::span<const std::uint32_t> deps_of(const Action& a) const {
    return {deps.data() + a.first_dep, a.num_deps};
  }
};

// What a program is built from.
struct StepSpec {
  int rank = 0;
  std::vector<parallel::Cell> cells = {{}};  // of the rank; they run side by side as far as cores reach
  std::int32_t num_parts = 1;                // of a cell, one after the other
  std::vector<std::int32_t> needed_by;       // per bucket: the first part that reads its parameters
  std::vector<std::int32_t> final_after;     // per bucket: the part that makes its gradients final
  std::int32_t loss_after = 0;               // the part that makes the loss
  Timetable timetable = Timetable::kLockStep;
  Overlap overlap = Overlap::kBuckets;
  std::vector<std::int32_t> order = {};  // of the sums; empty: as the buckets are
  bool updates_wait = false;             // for the vote: clipping, skipping, loss scaling
  Slot vote_slot = kSlotVote;
  // kLeased: what travels by the rule, and whether this rank applies its gradients.
  cost::Traffic::Path path = cost::Traffic::Path::kServers;
  bool updates_here = false;

  std::size_t num_buckets() const { return final_after.size(); }
};
// A cell's computation, cut where a bucket is first read or becomes final. The first and the last part are
// empty, so that what is needed at the end or final at the beginning has a part too.
struct StepParts {
  std::vector<double> cuts;  // part p is from cuts[p] to cuts[p + 1]: seconds, or strands
  std::vector<std::int32_t> needed_by, final_after;  // per bucket
  std::int32_t loss_after = 0;
  bool updates_wait = false;
  std::int32_t size() const { return static_cast<std::int32_t>(cuts.size()) - 1; }
};
StepParts cut_step(std::span<const double> needed_at, std::span<const double> final_at, double loss_at,
                   double end);
// The same of a shard's strands.
StepParts cut_strands(const StepCosts& costs);
// What the rule sends is in `traffic`; `owners`: of the plan's cells, who may have changed since.
StepSpec step_spec(const Plan& plan, const parallel::CellOwners& owners, const StepParts& parts,
                   const cost::Traffic& traffic, int rank);

struct StepRow {
  Timetable timetable;
  const char* doc;
  StepProgram (*build)(const StepSpec& spec);
};
std::span<const StepRow> step_table();
// By the row of the spec's timetable. kInvalid where the spec names parts or buckets that are not there.
Result<StepProgram> build_step(const StepSpec& spec);

// Proves the programs of all ranks of a mesh, in rank order, each against its spec: every gradient of a
// bucket is summed (or sent) once, after all parts that make it, and applied once, here or by the servers;
// all ranks begin the same sums in one order; messages between ranks have a partner; and nothing waits in a
// circle, although a send ends only with its recv, a sum and a vote only when all ranks are in it.
Status verify_steps(std::span<const StepProgram> programs, std::span<const StepSpec> specs);
// The same for the programs of all ranks of a plan. Worlds above kMostProvedRanks are not proved: all ranks
// are built by one function, and what goes wrong among many goes wrong among these.
Status prove_steps(const Plan& plan, const parallel::CellOwners& owners, const StepParts& parts,
                   const cost::Traffic& traffic);
inline constexpr int kMostProvedRanks = 33;

// What an action takes, and what it occupies: actions on one lane follow one another. -1: nothing.
struct ActionPrice {
  double seconds = 0;
  int lane = -1;
};
struct StepTimes {
  std::vector<double> begin, end;  // of the actions of the last step, in seconds since its first one began
  double step_seconds = 0;         // from step to step, in steady state
};
// Walks `steps` steps that follow one another.
StepTimes walk_step(const StepProgram& program, std::span<const ActionPrice> prices, int steps = 1);

}  // namespace trireme::plan
