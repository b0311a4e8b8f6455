// LeaseCoordinator: rank 0's desk, by letters. Workers ask for units, say what they did, and meet between
// rounds. A worker is a replica: the mailbox is one among replicas, whose speaker writes for all of its
// ranks.
//
// A meeting: every live worker arrives (ask); when the last one has, all are let in with their share of the
// evaluation; each sends its results and then asks to go; when everybody has, rank 0's own worker grades the
// round, saves, and lets all go on or end. A worker that is lost meanwhile is not waited for; its share of
// the evaluation is done by rank 0.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <set>

#include "trireme/comm/group.h"
#include "trireme/engine/lease_desk.h"
#include "trireme/runtime/sync.h"
#include "trireme/train/coordinator_letters.h"

namespace trireme::train {

struct LeaseCoordinatorOptions {
  int num_workers = 1;
  // Share of the workers that completes a round; the others' rest is dropped. 1: all.
  double fraction = 1;
  // What is to be done at the meeting that begins; indices are filled in.
  std::function<MeetingTicket()> make_ticket;
  std::function<void(int worker, const UnitReport& report)> on_report;
  std::function<void(int worker, const Status& why)> on_lost;
};

class LeaseCoordinator {
 public:
  LeaseCoordinator(runtime::Runtime& rt, comm::Group& group, comm::Mailbox& mail, engine::LeaseDesk desk,
                   LeaseCoordinatorOptions options);
  ~LeaseCoordinator();

  engine::LeaseDesk& desk() { return desk_; }
  void stop();  // as soon as workers are level, everybody meets

  // Where scores of a part go: two floats per batch, all of the part; kept until the next meeting.
  void set_scores(std::int32_t part, std::vector<float>* scores) { scores_[part] = scores; }
  // Ranges of batches that nobody has scored in this meeting.
  std::vector<std::pair<std::int64_t, std::int64_t>> unscored(std::int32_t part,
                                                              std::int64_t num_batches) const;

  // Rank 0's own worker at a meeting: until every other live worker asks to go.
  runtime::Task<Status> wait_until_all_ask_to_go();
  struct Drift {
    double sum = 0, most = 0;
    int count = 0;
  };
  Drift take_drift();
  // The next round is open by then, where it goes on.
  void let_go(Go go);

  // After the last round: until every live worker has sent its final words.
  runtime::Task<Status> wait_for_finals();
  const std::map<int, std::string>& finals() const { return finals_; }
  std::vector<int> lost() const { return {lost_.begin(), lost_.end()}; }
  Status verdict() const { return group_.verdict(); }
  int num_live() const { return options_.num_workers - static_cast<int>(lost_.size()); }

 private:
  template <typename Answer>
  struct Asked {
    int worker;
    comm::Ticket<Answer> ticket;
  };
  void handle_letters();
  void handle_results();
  void on_take(int worker, const comm::Letter<TakeHead>& letter);
  void on_done(int worker);
  void on_arrive(int worker, const comm::Letter<ArriveHead>& letter);
  void on_go(int worker, const comm::Letter<GoHead>& letter);
  void on_lost(int worker, const Status& why);
  void let_in_when_all_are_here();
  void look_who_waits();
  runtime::Task<Status> wait(std::unique_ptr<runtime::OneShot<bool>>& shot);
  template <typename Answer>
  runtime::Task<void> answer(Asked<Answer> asked, Answer with);
  runtime::Task<void> answer_ticket(Asked<comm::EmptyHead> asked, std::shared_ptr<MeetingTicket> ticket);
  runtime::Task<void> tell_taken(int worker, engine::Unit unit);

  runtime::Runtime& rt_;
  comm::Group& group_;
  comm::Mailbox& mail_;
  engine::LeaseDesk desk_;
  LeaseCoordinatorOptions options_;
  std::int64_t round_ = 0;
  std::set<int> lost_;
  std::vector<Asked<comm::EmptyHead>> arrived_;
  std::vector<Asked<GoAnswer>> going_;
  std::set<int> present_;                        // at the meeting under way
  std::vector<std::deque<UnitReport>> reports_;  // under way, per worker
  std::map<std::int32_t, std::vector<float>*> scores_;
  struct Range {
    int worker;
    std::int32_t part;
    std::int64_t begin, end;
  };
  std::vector<Range> scored_;
  std::map<int, std::string> finals_;
  std::set<int> final_;  // whose last words are there whole
  Drift drift_;
  std::unique_ptr<runtime::OneShot<bool>> all_ask_to_go_, all_final_;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

}  // namespace trireme::train
