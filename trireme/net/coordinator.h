// Coordinator: rank 0's half of the membership. Knows what every rank said last and comes to the verdict.
//
// Times, with heartbeat 200 ms and deadline 2 s:
//   closed    reported at once; waits kClosedGrace for a goodbye or verdict that is under way, then decides.
//   mismatch  asks everybody how it made the call and where it is, waits kMismatchWindow, then decides;
//             kTieWindow longer while who is wrong cannot be told and somebody may still come to the call.
//   silent    `deadline` and an eighth of a heartbeat after it was last heard (the heartbeat that is due at
//             the deadline comes first), looked at every quarter of a heartbeat.
//   stuck     each rank measures how long it stands still, to within a heartbeat.
#pragma once

#include <deque>
#include <map>
#include <string>
#include <vector>

#include "trireme/net/call_log.h"
#include "trireme/net/control_message.h"
#include "trireme/net/judge.h"
#include "trireme/net/membership.h"

namespace trireme::net {

// What the coordinator needs of the rank that it lives in.
class CoordinatorPort {
 public:
  virtual ~CoordinatorPort() = default;
  virtual void send(int peer, ControlMessage message) = 0;
  virtual void broadcast(ControlMessage message) = 0;        // to everybody else
  virtual RankView own_view() = 0;                           // of this rank, now
  virtual void compare_own(const CallId& id, int line) = 0;  // call_told, now or when it makes the call
  virtual void decide(Verdict verdict) = 0;                  // the first one counts
  virtual void lost(Verdict verdict) = 0;                    // of an expendable rank; the others were told
  virtual void all_left() = 0;
};

// Loop only. The port outlives it.
class Coordinator {
 public:
  static constexpr int kRank = 0;

  Coordinator(runtime::Runtime& rt, int world, const MembershipOptions& options, CoordinatorPort& port);
  Coordinator(const Coordinator&) = delete;
  Coordinator& operator=(const Coordinator&) = delete;
  ~Coordinator();

  void heard(int peer, ControlMessage message);
  // Looks for ranks that are silent or stuck.
  void look();
  // This rank itself was away: whoever seemed silent gets a new chance to be heard.
  void was_away();
  // Weighs what `reporter` (or this rank) saw.
  void consider(int reporter, Verdict verdict);
  // How `rank` made a call (a message of type kCall).
  void call_told(int rank, const ControlMessage& message);
  void left(int rank);
  void set_expendable(const std::vector<int>& ranks);
  std::string missing_text() const;  // who has not said goodbye

 private:
  // How the ranks made one call, as far as they have told.
  struct Comparison {
    CallId id;
    std::vector<int> lines;  // that were asked (CallLog::line_of)
    std::vector<CallClass> classes;
    std::vector<int> not_yet;  // members that have not made it
  };

  RankView& view(int rank) { return ranks_[static_cast<std::size_t>(rank)]; }
  // Null: it was compared before, or waits for its turn.
  struct Asked {
    CallId id;
    int line = -1;
    friend bool operator==(const Asked& a, const CallId& b) { return a.id == b; }
  };
  Comparison* comparison_of(const Asked& call);
  Comparison& compare(const Asked& call);
  void ask(Comparison& comparison, int line);
  void compare_more();
  void compare_waiting(int most);
  int most_in_a_beat() const;
  std::vector<CallClass> callers() const;  // of the calls that last
  void look_at_own();
  void open_mismatch_window();
  void ask_where();
  void mismatch_window_ended();
  void decide_on_closed();
  // The verdict, or, where the culprit is expendable and lost (`own`: by its own word), the notice. False: a
  // verdict.
  bool conclude(Verdict verdict, bool own);
  void look_whether_all_left();

  runtime::Runtime& rt_;
  const MembershipOptions options_;
  CoordinatorPort& port_;
  const TimeNs started_at_;
  std::vector<RankView> ranks_;
  std::vector<bool> expendable_;  // by rank; empty: nobody
  std::map<int, Verdict> losses_;
  std::vector<Verdict> closed_;  // reports that wait for the grace to end
  std::vector<Disagreement> disagreements_;
  std::deque<Comparison> comparisons_;
  struct {
    TimeNs beat_at = -1;        // the heartbeat that it is about
    int begun = 0;              // in it
    std::deque<Asked> waiting;  // the latest calls that were told of since
    std::deque<CallId> done;    // no longer in comparisons_
  } asked_;
  bool extended_ = false;
  runtime::TimerId closed_timer_ = 0, mismatch_timer_ = 0;
};

}  // namespace trireme::net
