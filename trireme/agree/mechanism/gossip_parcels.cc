#include "trireme/agree/mechanism/gossip_parcels.h"

#include <algorithm>

namespace trireme::agree {

using comm::Letter;
using runtime::Task;

namespace {

struct Outcome {
  Status status;
  ParcelAnswer how;  // of any bucket
};

Task<Status> ask_one(comm::Mailbox* mail, int peer, ParcelHead head, net::View vector, Outcome* outcome) {
  const auto answer = co_await mail->ask(peer, head, vector, {});
  if (answer.ok()) {
    outcome->how.is_refused |= answer->head.is_refused;
    outcome->how.for_good |= answer->head.for_good;
  } else if (outcome->status.ok()) {
    outcome->status = answer.status();
  }
  co_return Status();
}

}  // namespace

Parcels::Parcels(const RuleContext& context)
    : rt_(context.rt),
      mail_(context.mail),
      worker_(context.worker),
      in_flight_(std::max<std::int64_t>(1, context.options.own.integer(kInFlight))),
      num_buckets_(context.weights.size()),
      pool_(*context.rt, context.weights),
      peers_(static_cast<std::size_t>(context.num_workers)),
      answers_(*context.rt),
      own_(*context.rt) {
  for (const Tensor& t : context.weights) bytes_.push_back(t.type().num_bytes());
  peers_[static_cast<std::size_t>(worker_)].lost = true;  // not one of the others
  if (peers_.size() == 1) return;
  comm::Mailbox::Handler<ParcelHead> handler;
  handler.place = [this](int peer, const Letter<ParcelHead>& letter) { return place(peer, letter); };
  handler.arrived = [this](int peer, const Letter<ParcelHead>& letter) { on_letter(peer, letter); };
  mail_->handle(std::move(handler));
}

Parcels::~Parcels() {
  if (peers_.size() == 1) return;
  mail_->stop_handling<ParcelHead>();
  const bool receiving =
      std::any_of(peers_.begin(), peers_.end(), [](const Peer& peer) { return !peer.coming.empty(); });
  if (receiving || !abandoned_.empty() || own_.under_way() > 0) pool_.abandon();
}

// ---- what comes in

std::size_t Parcels::next_bucket(int peer) const {
  const std::deque<Parcel>& coming = peers_[static_cast<std::size_t>(peer)].coming;
  return coming.empty() ? 0 : coming.back().vectors.size() % num_buckets_;
}

Result<net::View> Parcels::place(int peer, const Letter<ParcelHead>& letter) {
  const std::uint32_t bucket = letter.head.bucket;
  if (static_cast<std::size_t>(peer) >= peers_.size() || bucket >= num_buckets_ ||
      letter.bytes != bytes_[bucket] || bucket != next_bucket(peer))
    return error(Code::kMismatch,
                 "[agree] a parcel of another model: got bucket {} of {} bytes from rank {}, expected {} "
                 "buckets in order; the workers run different jobs",
                 bucket, letter.bytes, peer, num_buckets_);
  Peer& from = peers_[static_cast<std::size_t>(peer)];
  if (bucket == 0 && ++from.held > in_flight_)
    return error(
        Code::kMismatch,
        "[agree] too many parcels: got more than {} from rank {} at once; parallel.in_flight differs "
        "between workers",
        in_flight_, peer);
  TR_ASSIGN_OR_RETURN(Tensor vector, pool_.take(bucket));
  const net::View view = view_of(vector);
  if (bucket == 0) from.coming.emplace_back();
  from.coming.back().vectors.push_back(std::move(vector));
  return view;
}

void Parcels::on_letter(int peer, const Letter<ParcelHead>& letter) {
  Peer& from = peers_[static_cast<std::size_t>(peer)];
  from.closed = false;
  from.coming.front().letters.push_back(letter);
  if (from.coming.front().letters.size() < num_buckets_) return;
  Parcel parcel = std::move(from.coming.front());
  from.coming.pop_front();
  parcel.peer = peer;
  parcel.clock = letter.head.clock;
  parcel.weight = letter.head.weight;
  if (refusing_) {
    refuse(std::move(parcel));
  } else {
    arrived_.push_back(std::move(parcel));
  }
}

void Parcels::end(Parcel parcel, ParcelAnswer how) {
  for (const Letter<ParcelHead>& letter : parcel.letters)
    answers_.start(answer_later(mail_, parcel.peer, letter.ticket, how, {}));
  --peers_[static_cast<std::size_t>(parcel.peer)].held;
  pool_.give_all(std::move(parcel.vectors));
}

void Parcels::refuse(Parcel parcel) {
  ParcelAnswer how;
  how.is_refused = true;
  how.for_good = closed_;
  end(std::move(parcel), how);
}

void Parcels::refuse(bool for_good) {
  refusing_ = true;
  closed_ = closed_ || for_good;
  for (Parcel& parcel : take_arrived()) refuse(std::move(parcel));
}

// ---- this worker's own

bool Parcels::may_send(int peer) const {
  return peers_[static_cast<std::size_t>(peer)].under_way < in_flight_;
}

Result<std::shared_ptr<std::vector<Tensor>>> Parcels::take_vectors() {
  TR_ASSIGN_OR_RETURN(std::vector<Tensor> vectors, pool_.take_all());
  return std::make_shared<std::vector<Tensor>>(std::move(vectors));
}

void Parcels::send(int peer, std::int64_t clock, double weight,
                   std::shared_ptr<std::vector<Tensor>> vectors) {
  ParcelHead head;
  head.clock = clock;
  head.weight = weight;
  ++peers_[static_cast<std::size_t>(peer)].under_way;
  own_.start(deliver(peer, head, std::move(vectors)));
}

Task<Status> Parcels::deliver(int peer, ParcelHead head, std::shared_ptr<std::vector<Tensor>> vectors) {
  Outcome outcome;
  std::vector<Task<Status>> asks;
  for (std::size_t b = 0; b < num_buckets_; ++b) {
    head.bucket = static_cast<std::uint32_t>(b);
    asks.push_back(ask_one(mail_, peer, head, view_of((*vectors)[b]), &outcome));
  }
  const Status all = co_await runtime::when_all(*rt_, std::move(asks));
  static_cast<void>(all);  // ask_one tells in `outcome`
  end_own(peer, head, vectors, outcome.status, outcome.how);
  co_return failure_;
}

void Parcels::end_own(int peer, const ParcelHead& head, const std::shared_ptr<std::vector<Tensor>>& vectors,
                      const Status& status, ParcelAnswer how) {
  Peer& to = peers_[static_cast<std::size_t>(peer)];
  --to.under_way;
  const bool lost = status.code() == Code::kPeerLost, refused = status.ok() && how.is_refused;
  if (!status.ok() && !lost && failure_.ok()) failure_ = status;
  if (how.for_good) to.closed = true;
  num_lost_ += lost ? 1 : 0;
  num_refused_ += refused ? 1 : 0;
  if (vectors.use_count() == 1) {
    Parcel parcel;
    parcel.peer = peer;
    parcel.clock = head.clock;
    parcel.weight = head.weight;
    parcel.vectors = std::move(*vectors);
    if (lost || refused) {
      returned_.push_back(std::move(parcel));
    } else {
      done(std::move(parcel));
    }
  }
}

std::vector<int> Parcels::partners() const {
  std::vector<int> workers;
  for (std::size_t w = 0; w < peers_.size(); ++w)
    if (!peers_[w].lost && !peers_[w].closed) workers.push_back(static_cast<int>(w));
  return workers;
}

// Memory that a letter of it was to fill is kept apart and not used again.
void Parcels::on_lost(int peer) {
  if (peer < 0 || static_cast<std::size_t>(peer) >= peers_.size()) return;
  Peer& gone = peers_[static_cast<std::size_t>(peer)];
  gone.lost = true;
  for (Parcel& parcel : gone.coming) abandoned_.push_back(std::move(parcel));
  gone.coming.clear();
}

}  // namespace trireme::agree
