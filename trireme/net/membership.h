// Membership: who is alive, and the one verdict when somebody is not.
//
// Every rank tells the coordinator (rank 0) every `heartbeat` that it is alive, whether it computes, how far
// it got and for whom it waits in which operation; the coordinator answers. Heartbeats come from the loop, so
// a long kernel is not silence. The coordinator walks the wait-for chain: a rank that is silent for
// `deadline`, or that neither computes nor gets on (stall_clock.h) for `deadline` while somebody waits for it
// and it waits for nobody who is busy (a mis-call, a deadlock), is the culprit. A rank that sees a closed
// connection or a mismatch reports it at once. The first failure becomes the verdict; it is sent to every
// rank directly, and each rank's `on_failure` runs once with a Status that carries the culprit
// (context.peer), the operation and the reason. A silent coordinator is noticed by every rank itself. A rank
// that leaves in good order says goodbye first: its closed connection is then no failure.
//
// Ranks whose calls differ are found in three ways: a message that meets a recv of another call (reported by
// the group at once); a message that no recv takes, of a call that this rank made in another way; a call that
// lasts longer than a heartbeat. In all three the coordinator asks every rank how it made that call (CallLog)
// and blames the odd one out.
//
// Expendable ranks: where one closes, falls silent or reports its own failure there is no verdict. The
// coordinator tells the others (once each) and goes on; the lost rank itself, if it still lives, gets the
// verdict that names it.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "trireme/net/call_log.h"
#include "trireme/net/rank_names.h"
#include "trireme/net/transport.h"

namespace trireme::net {

struct MembershipOptions {
  TimeNs heartbeat = 200 * kMilli;
  TimeNs deadline = 2 * kSecond;
  std::uint32_t epoch = 1;
  // Ranks start at different times: one that was never heard of counts as silent only after this time.
  TimeNs arrival = 10 * kSecond;
  // Every rank stands still and some wait for letters: nobody will ever write them.
  TimeNs standstill = 30 * kSecond;
  RankNames names = {};  // how verdicts call ranks; the same on every rank
};

// What this rank waits for now; kept up to date by the group.
struct WaitingFor {
  int peer = -1;          // -1: for nobody
  std::string operation;  // "allreduce bucket 0, step 17"
  // Waits for a letter, or for none in particular: whoever shall write may take its time, and so may this
  // rank. Only when nobody does anything for `standstill` somebody is stuck.
  bool patient = false;
};

class Membership {
 public:
  virtual ~Membership() = default;
  // `on_failure` runs once on the loop, also when the failure was reported by this rank.
  virtual void start(std::function<void(Status verdict)> on_failure) = 0;
  // Where calls can be looked up; without it only messages show that calls differ. `log` outlives this.
  virtual void watch_calls(CallLog* log) = 0;
  // A call that the log knows began; cheap.
  virtual void note_call(const CallId& id) = 0;
  // Asks whether the others made this call, which the log knows, in the same way.
  virtual void compare_call(const CallId& id) = 0;
  // Progress: call whenever an operation completes; cheap.
  virtual void note_progress() = 0;
  virtual void set_waiting(WaitingFor waiting) = 0;
  // This rank saw `culprit` fail. The first report wins everywhere.
  virtual void report(int culprit, Code code, std::string operation, std::string reason) = 0;
  // From now on the loss of one of these ranks is a notice: `on_lost` runs once per lost rank, on the loop,
  // on every other rank. Every rank calls it with the same ranks, never with the coordinator among them;
  // losses that the coordinator told of before are told then.
  virtual void set_expendable(const std::vector<int>& ranks,
                              std::function<void(int peer, const Status& why)> on_lost) = 0;
  // Says goodbye, waits until everybody has (at most until `deadline`, a time on rt.now(): kDeadline), then
  // stops heartbeats. After a failure: the verdict.
  virtual runtime::Task<Status> leave(TimeNs deadline) = 0;
  virtual const Status& verdict() const = 0;  // ok while all is well
};

// Takes the control and closed handlers of `transport`, which outlives it. In a world of one nobody is asked
// or told.
std::unique_ptr<Membership> make_membership(runtime::Runtime& rt, Transport& transport,
                                            MembershipOptions options);

}  // namespace trireme::net
