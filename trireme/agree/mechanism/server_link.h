// ServerLink: what the rules over parameter servers have in common: the worker's clock, pulls and what they
// tell, the meeting of all workers, counts. Who makes the servers gives them their first values.
#pragma once

#include <memory>
#include <vector>

#include "trireme/agree/agree.h"
#include "trireme/agree/mechanism/background_tasks.h"
#include "trireme/agree/mechanism/meeting.h"
#include "trireme/agree/mechanism/residuals.h"

namespace trireme::agree {

// Workers meet and go on with the largest clock of them.
struct LargestClock {
  std::int64_t clock = 0;
  static constexpr auto kFields = comm::head_fields(comm::at<8>(&LargestClock::clock));
};
struct LevelHead {
  static constexpr std::uint16_t kKind = comm::kLetterRuleFirst + 12;
  std::int64_t clock = 0;
  static constexpr auto kFields = comm::head_fields(comm::at<8>(&LevelHead::clock));
  using Answer = LargestClock;
};

class ServerLink {
 public:
  explicit ServerLink(const RuleContext& context);

  // With the present clock, whatever the note says; in the rule's codec, where it has one. Of a bucket that
  // is factored `values` are its factors.
  runtime::Task<Status> push(std::size_t bucket, Tensor values, server::PushNote note);
  // Remembers the version. With coded pulls `into` may be a few changes behind the servers.
  runtime::Task<Status> pull(std::size_t bucket, Tensor into, std::int64_t clock);
  runtime::Task<Status> pull_all(std::vector<Tensor> into, std::int64_t clock);
  // What coded pushes left, for checkpoints.
  std::vector<std::pair<std::string, Tensor>> state() const { return residuals_.state(); }
  // All buckets of the present clock were pushed; the next pushes have the next clock.
  runtime::Task<Status> tick();

  // Servers stop waiting for this worker, until settle() ends. Returns at once: an errand tells them.
  void leave();
  // The same for good; ends when the servers have applied what they have of it.
  runtime::Task<Status> finish();
  // Every live worker comes, nothing is held back, all background tasks end; `into` receives the servers'
  // model and outside the parameters this worker's own weights. Afterwards all workers have the same clock.
  runtime::Task<Status> settle(std::vector<Tensor> into);

  // Every live worker comes; all leave with the largest clock.
  runtime::Task<Status> meet();
  bool is_finished() const { return finished_; }
  // Nobody waits for it at a meeting.
  void on_lost(int worker);

  std::int64_t clock() const { return clock_; }
  void set_clock(std::int64_t clock) { clock_ = clock; }
  const server::Version& version(std::size_t bucket) const { return versions_[bucket]; }
  std::int64_t parameter_elems(std::size_t bucket) const;
  std::size_t num_buckets() const { return context_.weights.size(); }
  const RuleContext& context() const { return context_; }
  runtime::Runtime& rt() const { return *context_.rt; }
  server::Client& servers() const { return *context_.servers; }
  BackgroundTasks& background() { return background_; }

  // A push that was made beside push().
  void note_push() { ++pushes_; }
  // For the report: time that a step waited for servers, and the staleness of an update.
  void note_wait(TimeNs since);
  void note_staleness(std::int64_t clocks) { ++report_.staleness[std::max<std::int64_t>(0, clocks)]; }
  RuleReport report() const;

 private:
  RuleContext context_;
  runtime::Task<Status> pull_whole(std::size_t bucket, Tensor into);

  std::vector<server::Version> versions_;  // of the last pull, per bucket
  Residuals residuals_;
  std::int64_t clock_ = 0;
  bool away_ = false, finished_ = false;
  RuleReport report_;
  std::int64_t pushes_ = 0, encoded_ = 0, pulls_ = 0, waits_ = 0, meetings_ = 0;
  TimeNs waited_ns_ = 0;
  std::unique_ptr<Meeting<LevelHead>> meeting_;  // null: one worker
  BackgroundTasks background_;                   // last: they use the rest
};

}  // namespace trireme::agree
