// PeerUpdates: every worker's changes of its weights go to all others and are added there.
//
// An update is the change of this worker's weights by its own steps since its last update. Updates of others
// are added up beside the weights as they come, whatever this worker computes, and reach the weights in
// apply(). So every replica is the start plus the sum of all updates, and replicas differ by what is under
// way.
//
// Counts::kWhole: a change counts whole, but that of running statistics (RuleContext::parameter_elems) 1 / W.
// Counts::kShare: all of it counts 1 / W, here too, so that the replicas move by the mean of the changes. W:
// the workers that are alive when the update is made.
//
// With a codec an update travels encoded, the same bytes to all. The sender's own weights have all of it at
// once; what was not sent is part of its next update, and of the last one before a meeting or the end, which
// is whole. So at a meeting nothing is owed to anybody.
//
// Bounds: a worker has `in_flight` updates under way; one is under way until every live peer has added it,
// which waits for no peer's step. Memory beside the weights: two vectors per bucket, one per update under
// way, and at most in_flight (W - 1) for what comes in, made as they are needed.
//
// A meeting (settle) starts the clocks anew: everything has arrived everywhere, worker 0's model is the
// agreed one, and the others take it over, bit for bit, in their next apply(). What a lost worker told only
// some of the others is forgotten or kept with it.
#pragma once

#include <atomic>
#include <deque>
#include <memory>

#include "trireme/agree/mechanism/residuals.h"
#include "trireme/agree/mechanism/star.h"
#include "trireme/runtime/sync.h"
#include "trireme/server/vector_coder.h"

namespace trireme::agree {

class PeerUpdates {
 public:
  enum class Counts : std::uint8_t { kWhole, kShare };
  // Has handlers in the mailbox as long as it lives.
  PeerUpdates(const RuleContext& context, Counts counts);
  ~PeerUpdates();
  PeerUpdates(const PeerUpdates&) = delete;
  PeerUpdates& operator=(const PeerUpdates&) = delete;

  // Ends when every peer that is still stepping has said that its clocks below `clock` are done.
  runtime::Task<Status> wait_for_clocks(std::int64_t clock);
  // Ends when this worker is at most `bound` clocks ahead of every peer that is still stepping: of its clock,
  // or of the last news from it, however slow it is. Whoever waits has sent what it changed, so no two wait
  // for each other.
  enum class Ahead : std::uint8_t { kOfClocks, kOfNews };
  runtime::Task<Status> wait_while_ahead(std::int64_t bound, Ahead ahead);
  // Before a step: adds to the weights what has come.
  runtime::Task<Status> apply();
  // After a step: this worker's clock is one more.
  void tick() { ++clock_, ++unsent_steps_; }
  // Sends the change since the last update. Where `in_flight` are under way: waits for one, or returns false
  // and leaves the change to the next update.
  runtime::Task<Result<bool>> send(bool wait);
  // What coded updates left, for checkpoints.
  std::vector<std::pair<std::string, Tensor>> state() const { return residuals_.state(); }

  // No step until the next settle(): nobody waits for this worker's clock.
  runtime::Task<Status> arrive();
  runtime::Task<Status> settle(std::vector<Tensor> into);
  runtime::Task<Status> finish();
  void on_lost(int peer);
  // Agreement::on_moved: the weights' change is no change of this worker's.
  void on_moved(std::size_t bucket, std::int64_t begin, std::span<const float> by);

  std::int64_t clock() const { return clock_; }
  std::int64_t unsent_steps() const { return unsent_steps_; }
  // Clocks that this worker is ahead of the slowest that still steps.
  std::int64_t lead() const;
  // Adds its own counts: updates, merged, the largest difference to worker 0's model found in settle().
  RuleReport report() const;

 private:
  // On its way: vectors by bucket, as they are or encoded.
  struct Update {
    std::vector<Tensor> vectors;
    std::vector<std::uint64_t> bytes;
    bool is_coded = false;
  };
  struct Peer {
    bool lost = false, finished = false, met = false;
    std::int64_t done = 0;                           // clocks since the last meeting, added here
    std::int64_t heard = 0;                          // this worker's clock when it added the last update
    std::int64_t arrived = 0;                        // updates, whole
    std::deque<std::pair<std::size_t, Tensor>> due;  // placed and not yet arrived, in order
    std::int64_t held = 0;                           // vectors placed and not yet added
  };
  // Work on the sums, one after the other: a vector to add, or somebody who waits for his turn.
  struct Job {
    int peer = 0;
    comm::Letter<UpdateHead> letter;
    std::size_t bucket = 0;
    Tensor vector;
    runtime::OneShot<bool>* turn = nullptr;
  };

  void open();
  Status make_vectors();
  Status make_coders();
  runtime::Task<Status> prepare();

  Result<net::View> place_update(int peer, const comm::Letter<UpdateHead>& letter);
  void on_update(int peer, const comm::Letter<UpdateHead>& letter);
  runtime::Task<Status> work();
  runtime::Task<void> add(Job job);
  runtime::Task<void> add_coded(const Job& job);
  runtime::Task<void> take_turn();  // everything that has come is added; until give_turn() no more is
  void give_turn();

  // Everything that this worker owes to the others.
  runtime::Task<Status> send_rest();
  runtime::Task<Result<Update>> take_update(std::int64_t num_live, bool whole);
  runtime::Task<Result<Update>> encode(std::vector<Tensor> changes, std::int64_t exchange);
  runtime::Task<Result<bool>> send_update(bool wait, bool whole);
  runtime::Task<Status> broadcast(Update update, UpdateHead head);
  runtime::Task<Status> deliver(int peer, const Update& update, UpdateHead head);
  runtime::Task<Status> say_so_far(std::int64_t clock);
  runtime::Task<Status> ask_clock(int peer, std::int64_t clock);
  runtime::Task<Status> ask_meet(int peer);
  runtime::Task<Status> write_agreed(std::vector<Tensor> into);
  void answer_asks();
  bool is_live(int peer) const { return !peers_[static_cast<std::size_t>(peer)].lost; }
  Whereabouts where_i_am() const;

  RuleContext context_;
  Counts counts_;
  runtime::Runtime* rt_;
  comm::Mailbox* mail_;
  VectorPool pool_;
  Residuals residuals_;
  std::vector<server::VectorCoder> coders_;  // per bucket; none without a codec
  std::unique_ptr<VectorPool> messages_;     // memory of encoded updates
  bool owes_ = false;                        // something was not sent
  Status failure_;
  std::vector<Peer> peers_;
  std::vector<Tensor> base_, sum_;  // the weights without this worker's unsent change; what is to be added
  bool prepared_ = false;
  bool adopt_ = false;  // the weights are to become base + sum

  std::deque<Job> jobs_;
  bool working_ = false, turn_taken_ = false;
  std::vector<std::int64_t> fresh_;  // clocks of the updates in the sums

  std::int64_t clock_ = 0, sent_clock_ = 0, unsent_steps_ = 0;
  std::int64_t round_ = 0;  // meetings
  bool resting_ = false, at_meeting_ = false, finished_ = false;
  std::int64_t sent_ = 0;
  std::vector<std::pair<int, comm::Letter<ClockHead>>> clock_asks_;
  std::vector<std::pair<int, comm::Letter<MeetHead>>> meet_asks_;

  RuleReport report_;
  std::int64_t merged_ = 0, coded_ = 0;
  std::uint64_t coded_bytes_ = 0;
  std::shared_ptr<std::atomic<float>> settle_difference_ = std::make_shared<std::atomic<float>>(0.0F);

  Star star_;
  BackgroundTasks adding_, answers_, under_way_;  // under way: one per update
};

}  // namespace trireme::agree
