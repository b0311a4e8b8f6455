#include "trireme/net/endpoint.h"

#include <cstring>
#include <utility>

namespace trireme::net {
namespace {
// A control message that comes before anybody listens is kept, but not without end.
constexpr std::size_t kMaxEarlyControl = 4096;
}  // namespace

Status disagreement(int rank, int peer, const Identity& id, const std::string& got,
                    const std::string& expected) {
  const std::string reason = fmt::format("mismatched call: got {}, expected {}", got, expected);
  return Status(
      Code::kMismatch,
      fmt::format("[net] rank {} and rank {} disagree on {}: got {}, expected {}; every rank must make the "
                  "same calls with the same sizes",
                  peer, rank, id.to_string(), got, expected),
      ErrorContext{.rank = rank, .peer = peer, .operation = {}, .tag = id.to_string(), .reason = reason});
}

std::string describe_call(const Identity& id, const Fingerprint& fingerprint) {
  return fmt::format("[{}] in {}", fingerprint.to_string(), id.to_string());
}

Endpoint::Endpoint(runtime::Runtime& rt, int rank, int world, std::uint32_t epoch)
    : rt_(rt), rank_(rank), world_(world), epoch_(epoch) {}

bool Endpoint::check_call(int peer, const Identity& id, Completion* done, std::uint64_t cookie) {
  TR_CHECK(done != nullptr, "a send or recv needs a completion");
  if (poisoned()) {
    complete_later(done, cookie, poison_);
    return false;
  }
  if (peer < 0 || peer >= world_) {
    complete_later(done, cookie,
                   error(Code::kInvalid, "[net] no such peer: got rank {}, expected 0..{}; fix the caller",
                         peer, world_ - 1));
    return false;
  }
  if (id.epoch != epoch_) {
    complete_later(
        done, cookie,
        error(Code::kInvalid,
              "[net] message of another epoch: got {} ({}), expected epoch {}; connect anew for a new epoch",
              id.epoch, id.to_string(), epoch_));
    return false;
  }
  if (const Status& why = forgotten(peer, id.group); !why.ok()) {
    complete_later(done, cookie, why);
    return false;
  }
  return true;
}

const Status& Endpoint::forgotten(int peer, std::uint16_t group) const {
  if (const auto lost = lost_peers_.find(peer); lost != lost_peers_.end()) return lost->second;
  const auto dead = dead_groups_.find(group);
  return dead == dead_groups_.end() ? fine_ : dead->second;
}

bool Endpoint::refuses(int peer, const Identity& id) const {
  return closed_ || poisoned() || id.epoch != epoch_ || !forgotten(peer, id.group).ok();
}

void Endpoint::forget_peer(int peer, const Status& why) {
  TR_CHECK(!why.ok() && peer != rank_, "forgetting rank {} needs a reason", peer);
  if (poisoned() || !lost_peers_.emplace(peer, why).second) return;
  for (std::uint32_t slot = 0; slot < sends_.size(); ++slot)
    if (sends_[slot].done != nullptr && sends_[slot].peer == peer)
      end_send_later({slot, sends_[slot].generation}, why);
  for (const PendingRecv& recv : matcher_.take_recvs_of(peer)) complete_later(recv.done, recv.cookie, why);
  matcher_.drop_arrived(peer);
}

void Endpoint::forget_group(std::uint16_t group, const Status& why, const Dropped& dropped) {
  TR_CHECK(!why.ok(), "forgetting group {} needs a reason", group);
  if (poisoned() || !dead_groups_.emplace(group, why).second) return;
  matcher_.forget_group(
      group,
      [&](int peer, const PendingRecv& recv) {
        complete_later(recv.done, recv.cookie, why);
        dropped(peer, true, 0);
      },
      [&](int peer, std::uint64_t bytes) { dropped(peer, false, bytes); });
}

SendToken Endpoint::begin_send(Completion* done, std::uint64_t cookie, int peer) {
  std::uint32_t slot = free_sends_;
  if (slot != UINT32_MAX) {
    free_sends_ = sends_[slot].next_free;
  } else {
    slot = static_cast<std::uint32_t>(sends_.size());
    sends_.emplace_back();
  }
  sends_[slot].done = done;
  sends_[slot].cookie = cookie;
  sends_[slot].peer = peer;
  return {slot, sends_[slot].generation};
}

bool Endpoint::release(SendToken token, SendSlot& out) {
  if (token.slot >= sends_.size()) return false;
  SendSlot& s = sends_[token.slot];
  if (s.generation != token.generation || s.done == nullptr) return false;
  out = s;
  s.done = nullptr;
  ++s.generation;
  s.next_free = std::exchange(free_sends_, token.slot);
  return true;
}

void Endpoint::end_send_on_loop(SendToken token, const Status& status) {
  SendSlot s;
  if (!closed_ && release(token, s)) s.done->on_complete(s.cookie, status);
}

void Endpoint::end_send_later(SendToken token, const Status& status) {
  SendSlot s;
  if (release(token, s)) complete_later(s.done, s.cookie, status);
}

void Endpoint::complete_later(Completion* done, std::uint64_t cookie, const Status& status) {
  ready_.push_back({done, cookie, status});
  schedule_flush();
}

void Endpoint::schedule_flush() {
  if (std::exchange(flush_scheduled_, true)) return;
  rt_.post([self = shared_from_this()] { self->flush_on_loop(); });
}

// What the completions start anew goes to the next flush: a completion never runs inside the call that asked
// for it.
void Endpoint::flush_on_loop() {
  flush_scheduled_ = false;
  std::swap(ready_, delivering_);
  for (std::size_t i = 0; i < delivering_.size() && !closed_; ++i) {
    const Ready& r = delivering_[i];
    r.done->on_complete(r.cookie, r.status);
  }
  delivering_.clear();
  if (closed_ || !ready_.empty()) return;
  std::vector<Callback> drained = std::move(drained_);
  drained_.clear();
  for (Callback& fn : drained)
    if (fn) fn();
}

Status Endpoint::check_match(int peer, const Identity& id, const PendingRecv& recv, std::uint64_t fingerprint,
                             std::uint64_t bytes) const {
  if (recv.fingerprint == fingerprint && recv.view.bytes == bytes) return {};
  const bool same = recv.fingerprint == fingerprint;
  const std::string got = same ? fmt::format("{} bytes", bytes)
                               : fmt::format("[{}]", Fingerprint::unpack(fingerprint).to_string());
  const std::string expected = same ? fmt::format("{} bytes", recv.view.bytes)
                                    : fmt::format("[{}]", Fingerprint::unpack(recv.fingerprint).to_string());
  return disagreement(rank_, peer, id, got, expected);
}

std::uint64_t Endpoint::recv(int peer, const Identity& id, std::uint64_t fingerprint, View view,
                             Completion* done, std::uint64_t cookie) {
  const PendingRecv recv{fingerprint, view, done, cookie};
  const auto message = matcher_.take_arrived(peer, id);
  if (!message) {
    matcher_.add_recv(peer, id, recv);
    return 0;
  }
  const Status status = check_match(peer, id, recv, message->fingerprint, message->bytes);
  if (status.ok() && message->payload && view.data)
    std::memcpy(view.data, message->payload.get(), view.bytes);
  complete_later(done, cookie, status);
  return message->payload ? message->bytes : 0;
}

bool Endpoint::arrived_on_loop(int peer, const Identity& id, ArrivedMessage message, bool later) {
  // Late messages of an older epoch, of a lost peer, and whatever comes after the end, are refused.
  if (refuses(peer, id)) return false;
  const auto recv = matcher_.take_recv(peer, id);
  if (!recv) {
    matcher_.add_arrived(peer, id, std::move(message));
    return true;
  }
  const Status status = check_match(peer, id, *recv, message.fingerprint, message.bytes);
  if (status.ok() && message.payload && recv->view.data)
    std::memcpy(recv->view.data, message.payload.get(), recv->view.bytes);
  message.payload.reset();
  if (later || flush_scheduled_)  // behind the completions that are on their way already
    complete_later(recv->done, recv->cookie, status);
  else
    recv->done->on_complete(recv->cookie, status);
  return false;
}

bool Endpoint::poison(Status reason, Callback drained) {
  TR_CHECK(!reason.ok(), "poison needs a reason");
  drained_.push_back(std::move(drained));
  const bool first = !poisoned();
  if (first) {
    poison_ = std::move(reason);
    for (Ready& r : ready_) r.status = poison_;
    for (std::uint32_t slot = 0; slot < sends_.size(); ++slot)
      end_send_later({slot, sends_[slot].generation}, poison_);
    for (const PendingRecv& recv : matcher_.take_recvs_of(-1))
      complete_later(recv.done, recv.cookie, poison_);
    matcher_.drop_arrived();
  }
  schedule_flush();
  return first;
}

void Endpoint::close() {
  closed_ = true;
  on_control_ = nullptr;
  on_closed_ = nullptr;
  drained_.clear();
}

void Endpoint::control_on_loop(int peer, ByteView bytes) {
  if (closed_) return;
  if (on_control_ && early_control_.empty()) {  // those that came before are told first
    // The handler may replace itself.
    const auto handler = on_control_;
    handler(peer, bytes);
  } else if (early_control_.size() < kMaxEarlyControl) {
    early_control_.push_back({peer, Bytes(bytes.begin(), bytes.end())});
  }
}

void Endpoint::closed_on_loop(int peer) {
  if (closed_ || peer < 0 || peer >= world_) return;
  if (peer_closed_.empty()) peer_closed_.resize(static_cast<std::size_t>(world_));
  if (peer_closed_[static_cast<std::size_t>(peer)]) return;
  peer_closed_[static_cast<std::size_t>(peer)] = true;
  if (on_closed_) {
    const auto handler = on_closed_;
    handler(peer);
  } else {
    early_closed_.push_back(peer);
  }
}

void Endpoint::deliver_early_on_loop() {
  if (closed_) return;
  if (on_control_) {
    for (EarlyControl& early : std::exchange(early_control_, {})) control_on_loop(early.peer, early.bytes);
  }
  if (on_closed_) {
    for (const int peer : std::exchange(early_closed_, {})) {
      if (!on_closed_) break;
      const auto handler = on_closed_;
      handler(peer);
    }
  }
}

void Endpoint::set_control_handler(std::function<void(int, ByteView)> handler) {
  on_control_ = std::move(handler);
  if (on_control_ && !early_control_.empty())
    rt_.post([self = shared_from_this()] { self->deliver_early_on_loop(); });
}

void Endpoint::set_closed_handler(std::function<void(int)> handler) {
  on_closed_ = std::move(handler);
  if (on_closed_ && !early_closed_.empty())
    rt_.post([self = shared_from_this()] { self->deliver_early_on_loop(); });
}

}  // namespace trireme::net
