// Parcels: whole models on their way between workers that gossip. Nobody waits for one: what has come is
// taken before the next step, and what finds `in_flight` others to the same worker still under way is not
// sent.
//
// A parcel is one letter per bucket. Each ends accepted, refused (the other is at a meeting or has finished)
// or with the loss of the other; refused and lost ones are the sender's again.
#pragma once

#include <deque>
#include <memory>

#include "trireme/agree/mechanism/peer_letters.h"
#include "trireme/runtime/sync.h"

namespace trireme::agree {

// One that came, or one of this worker's own that came back.
struct Parcel {
  int peer = 0;
  std::int64_t clock = 0;  // of the sender when it was sent
  double weight = 0;
  std::vector<Tensor> vectors;
  std::vector<comm::Letter<ParcelHead>> letters;  // to be answered; empty: this worker's own
};

class Parcels {
 public:
  // Has a handler in the mailbox as long as it lives.
  explicit Parcels(const RuleContext& context);
  ~Parcels();
  Parcels(const Parcels&) = delete;
  Parcels& operator=(const Parcels&) = delete;

  bool may_send(int peer) const;
  // `vectors` may go to several workers; they are used again when the last is done.
  void send(int peer, std::int64_t clock, double weight, std::shared_ptr<std::vector<Tensor>> vectors);
  Result<std::shared_ptr<std::vector<Tensor>>> take_vectors();

  // What has come since the last call. Each is given back to accept().
  std::vector<Parcel> take_arrived() { return std::exchange(arrived_, {}); }
  // This worker's own that came back since the last call. Each is given back to done().
  std::vector<Parcel> take_returned() { return std::exchange(returned_, {}); }
  void accept(Parcel parcel) { end(std::move(parcel), {}); }
  void done(Parcel parcel) { pool_.give_all(std::move(parcel.vectors)); }

  // From now on parcels are refused, those that wait here too; `for_good`: and nobody shall send more.
  void refuse(bool for_good);
  void welcome() { refusing_ = false, closed_ = false; }
  // Every parcel of this worker's own has ended.
  runtime::Task<Status> wait_for_own() { return own_.drain(); }
  const Status& failure() const { return failure_; }

  // Workers that take parcels, this one not among them.
  std::vector<int> partners() const;
  void on_lost(int peer);
  std::int64_t num_refused() const { return num_refused_; }
  std::int64_t num_lost() const { return num_lost_; }

 private:
  struct Peer {
    bool lost = false, closed = false;
    std::int64_t under_way = 0, held = 0;
    std::deque<Parcel> coming;  // filled letter by letter; heads may run ahead of payloads
  };

  std::size_t next_bucket(int peer) const;
  Result<net::View> place(int peer, const comm::Letter<ParcelHead>& letter);
  void on_letter(int peer, const comm::Letter<ParcelHead>& letter);
  void refuse(Parcel parcel);
  runtime::Task<Status> deliver(int peer, ParcelHead head, std::shared_ptr<std::vector<Tensor>> vectors);
  void end(Parcel parcel, ParcelAnswer how);
  void end_own(int peer, const ParcelHead& head, const std::shared_ptr<std::vector<Tensor>>& vectors,
               const Status& status, ParcelAnswer how);

  runtime::Runtime* rt_;
  comm::Mailbox* mail_;
  int worker_;
  std::int64_t in_flight_;
  std::size_t num_buckets_;
  std::vector<std::uint64_t> bytes_;  // per bucket
  VectorPool pool_;
  std::vector<Peer> peers_;
  std::vector<Parcel> arrived_, returned_, abandoned_;
  bool refusing_ = false, closed_ = false;
  std::int64_t num_refused_ = 0, num_lost_ = 0;
  Status failure_;
  BackgroundTasks answers_, own_;
};

}  // namespace trireme::agree
