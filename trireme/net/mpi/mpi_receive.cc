// The receiving half of MpiTransport: arrivals, offers, and payloads on their way in.
#include <cstring>
#include <utility>

#include "trireme/net/mpi/mpi_transport.h"

namespace trireme::net::mpi {
namespace {

constexpr TimeNs kPullAfter = kMilli;

ArrivedMessage as_message(std::shared_ptr<Arrival> arrival) {
  const auto* at = reinterpret_cast<const std::byte*>(arrival.get());
  const std::uint64_t fingerprint = arrival->fingerprint, bytes = arrival->bytes;
  return {fingerprint, std::shared_ptr<const std::byte>(std::move(arrival), at), bytes};
}

std::shared_ptr<Arrival> as_arrival(const ArrivedMessage& message) {
  auto* at = reinterpret_cast<Arrival*>(const_cast<std::byte*>(message.payload.get()));
  return {message.payload, at};
}

}  // namespace

void MpiTransport::recv(int from, const Identity& id, const Fingerprint& fp, View view, Completion* done,
                        std::uint64_t cookie) {
  if (!poison_.ok()) return endpoint_->complete_later(done, cookie, poison_);
  if (!endpoint_->check_call(from, id, done, cookie)) return;
  if (!peer(from).broken.ok()) return endpoint_->complete_later(done, cookie, peer(from).broken);
  const PendingRecv recv{fp.pack(), view, done, cookie};
  if (const auto message = endpoint_->matcher().take_arrived(from, id)) {
    deliver(recv, as_arrival(*message));
    return;
  }
  endpoint_->matcher().add_recv(from, id, recv);
  ++recvs_waiting_;
  local_work_ = true;  // look at once, and keep looking
}

void MpiTransport::on_small(int from, int tag, const MpiHeader& header, ByteView payload) {
  if (closing_) return;
  switch (header.kind) {
    case Kind::kData:
    case Kind::kOffer:
      arrived_small(from, header, payload);
      break;
    case Kind::kClear:
    case Kind::kDiscard: {
      if (header.slot >= outgoing_.size()) return on_nonsense(from);
      Outgoing& out = outgoing_[header.slot];
      if (out.generation != header.generation || out.peer != from || out.state != Outgoing::State::kOffered)
        return;  // taken back meanwhile
      if (poisoning()) return;
      if (header.kind == Kind::kClear) {
        out.state = Outgoing::State::kSending;
        ++moving_;
        port_.send_payload(from, header.slot, out.data, out.bytes, ended_id(Ended::kOutgoing, header.slot));
      } else {
        endpoint_->end_send_later(out.token, ok_status());
        free_outgoing(header.slot);
      }
      break;
    }
    case Kind::kControl:
      if (payload.size() <= kMaxControlBytes)
        control_in_.emplace_back(from, Bytes(payload.begin(), payload.end()));
      break;
    case Kind::kBye:
      (tag == kDataTag ? peer(from).data_ended : peer(from).control_ended) = true;
      if (peer(from).data_ended && peer(from).control_ended) ended_peers_.push_back(from);
      break;
  }
}

void MpiTransport::arrived_small(int from, const MpiHeader& header, ByteView payload) {
  auto arrival = std::make_shared<Arrival>();
  arrival->peer = from;
  arrival->id = Identity::unpack(header.high, header.low);
  arrival->fingerprint = header.fingerprint;
  arrival->bytes = header.bytes;
  if (header.kind == Kind::kOffer) {
    arrival->state = Arrival::State::kOffered;
    arrival->slot = header.slot;
    arrival->generation = header.generation;
    arrival->came_at = rt().now();
  } else if (!payload.empty()) {
    arrival->data = pool_.take(payload.size());
    std::memcpy(arrival->data.get(), payload.data(), payload.size());
  }
  arrived(std::move(arrival));
}

void MpiTransport::arrived(std::shared_ptr<Arrival> arrival) {
  const bool offer = arrival->state == Arrival::State::kOffered;
  if (poisoning()) return;
  if (arrival->id.epoch != endpoint_->epoch()) {  // refused
    if (offer) answer(Kind::kDiscard, arrival->peer, arrival->slot, arrival->generation);
    return;
  }
  if (const auto recv = endpoint_->matcher().take_recv(arrival->peer, arrival->id)) {
    --recvs_waiting_;
    deliver(*recv, arrival);
    return;
  }
  if (offer) offered_.push_back(arrival);
  const Identity id = arrival->id;
  const int from = arrival->peer;
  endpoint_->matcher().add_arrived(from, id, as_message(std::move(arrival)));
}

void MpiTransport::deliver(const PendingRecv& recv, const std::shared_ptr<Arrival>& arrival) {
  const Status status =
      endpoint_->check_match(arrival->peer, arrival->id, recv, arrival->fingerprint, arrival->bytes);
  const Arrival::State state = arrival->state;
  if (status.ok() && state == Arrival::State::kOffered && recv.view.data != nullptr) {
    choose(arrival, recv);
    return;
  }
  if (status.ok() && state == Arrival::State::kPulling) {
    arrival->recv = recv;
    return;
  }
  if (state == Arrival::State::kOffered) {  // a mismatch, or a recv that wants the size alone
    answer(Kind::kDiscard, arrival->peer, arrival->slot, arrival->generation);
  } else if (status.ok() && arrival->data && recv.view.data != nullptr) {
    std::memcpy(recv.view.data, arrival->data.get(), recv.view.bytes);
  }
  if (state == Arrival::State::kHeld) release(*arrival);
  arrival->state = Arrival::State::kTaken;
  endpoint_->complete_later(recv.done, recv.cookie, status);
}

void MpiTransport::release(Arrival& arrival) {
  if (std::exchange(arrival.counted, false)) peer(arrival.peer).held_bytes -= arrival.bytes;
}

// The payload of an offer goes into `recv`, or without one into memory of our own.
void MpiTransport::choose(const std::shared_ptr<Arrival>& arrival, std::optional<PendingRecv> recv) {
  if (free_incoming_.empty()) {
    free_incoming_.push_back(static_cast<std::uint32_t>(incoming_.size()));
    incoming_.emplace_back();
  }
  const std::uint32_t at = free_incoming_.back();
  free_incoming_.pop_back();
  Incoming& in = incoming_[at];
  in.peer = arrival->peer;
  in.slot = arrival->slot;
  in.generation = arrival->generation;
  in.bytes = arrival->bytes;
  in.state = Incoming::State::kChosen;
  in.recv = recv;
  arrival->state = recv ? Arrival::State::kTaken : Arrival::State::kPulling;
  if (!recv) in.arrival = arrival;
  chosen_.push_back(at);
  local_work_ = true;
}

// Posts the recv first, then tells the sender to go ahead.
bool MpiTransport::start_incoming() {
  bool any = false;
  for (const std::uint32_t at : std::exchange(chosen_, {})) {
    Incoming& in = incoming_[at];
    in.state = Incoming::State::kPosted;
    ++moving_;
    std::byte* target = in.recv ? in.recv->view.data : in.arrival->data.get();
    port_.recv_payload(in.peer, in.slot, target, in.bytes, ended_id(Ended::kIncoming, at));
    answer(Kind::kClear, in.peer, in.slot, in.generation);
    any = true;
  }
  return any;
}

void MpiTransport::incoming_finished(std::uint32_t at, bool ok) {
  const Incoming in = std::exchange(incoming_[at], {});
  free_incoming_.push_back(at);
  if (closing_) return;
  if (!ok && poison_.ok()) on_broken(in.peer);
  Status status = poison_;
  if (status.ok() && !ok) status = peer(in.peer).broken;
  const bool taken =
      in.arrival && in.arrival->state == Arrival::State::kTaken;  // by a recv that did not match
  if (in.arrival && !taken) in.arrival->state = Arrival::State::kHeld;
  std::optional<PendingRecv> recv = in.recv;
  if (in.arrival && in.arrival->recv) recv = std::exchange(in.arrival->recv, std::nullopt);
  if (recv && in.arrival && status.ok())
    deliver(*recv, in.arrival);
  else if (recv)
    endpoint_->complete_later(recv->done, recv->cookie, status);
  if (taken) release(*in.arrival);
}

// A sender may wait for its send before it makes the call that our recv needs.
void MpiTransport::pull_old_offers() {
  if (offered_.empty() || poisoning()) return;
  const TimeNs now = rt().now();
  std::size_t kept = 0, seen = 0;
  for (; seen < offered_.size(); ++seen) {
    const std::shared_ptr<Arrival> offer = offered_[seen];
    if (offer->state != Arrival::State::kOffered) continue;  // a recv has taken it
    if (now - offer->came_at < kPullAfter) break;
    std::uint64_t& held = peer(offer->peer).held_bytes;
    if (held + offer->bytes > kMaxHeldBytes) {
      offered_[kept++] = offer;
      continue;
    }
    held += offer->bytes;
    offer->counted = true;
    offer->data = pool_.take(offer->bytes);
    choose(offer, std::nullopt);
  }
  offered_.erase(offered_.begin() + static_cast<std::ptrdiff_t>(kept),
                 offered_.begin() + static_cast<std::ptrdiff_t>(seen));
}

void MpiTransport::on_broken(int from) {
  if (closing_ || !peer(from).broken.ok()) return;
  break_peer(from, Code::kPeerLost, "MPI cannot reach it");
  ended_peers_.push_back(from);
}

void MpiTransport::break_peer(int from, Code code, const char* what) {
  Peer& p = peer(from);
  if (closing_ || !p.broken.ok()) return;
  p.broken = Status(
      code, fmt::format("[net] rank {} and rank {} cannot go on: {}; restart the job", from, rank(), what),
      ErrorContext{.rank = rank(), .peer = from, .operation = {}, .tag = {}, .reason = what});
  for (const PendingRecv& recv : endpoint_->matcher().take_recvs_of(from)) {
    --recvs_waiting_;
    endpoint_->complete_later(recv.done, recv.cookie, p.broken);
  }
  for (const Queued& q : std::exchange(p.queue, {}))
    if (q.header.kind == Kind::kData) endpoint_->end_send_later(q.token, p.broken);
  for (std::uint32_t slot = 0; slot < outgoing_.size(); ++slot) {
    if (outgoing_[slot].peer != from || outgoing_[slot].state != Outgoing::State::kOffered) continue;
    endpoint_->end_send_later(outgoing_[slot].token, p.broken);
    free_outgoing(slot);
  }
}

}  // namespace trireme::net::mpi
