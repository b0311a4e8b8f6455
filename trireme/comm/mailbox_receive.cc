// Letters that come: placed, filled, and handed over in order.
#include <algorithm>
#include <cstring>
#include <utility>

#include "trireme/comm/program_run.h"
#include "trireme/comm/transport_mailbox.h"

namespace trireme::comm {

void TransportMailbox::set_handler(std::uint16_t kind, EnvelopeHandler handler) {
  if (!handler.place && !handler.arrived) {
    handlers_.erase(kind);
    return;
  }
  handlers_[kind] = std::make_shared<const EnvelopeHandler>(std::move(handler));
  if (aside_.empty()) return;
  rt_.post([this, alive = alive_] {
    if (*alive) let_in_on_loop();
  });
}

// Those that stood aside and have a handler now.
void TransportMailbox::let_in_on_loop() {
  for (const std::uint32_t index : std::exchange(aside_, {})) {
    Incoming& in = incoming_[index];
    const auto handler = handlers_.find(in.letter.kind);
    if (handler == handlers_.end()) {
      aside_.push_back(index);
      continue;
    }
    in.handler = handler->second;
    admit_on_loop(index);
  }
}

std::uint32_t TransportMailbox::take_incoming() {
  if (free_incoming_.empty()) {
    incoming_.emplace_back();
    return static_cast<std::uint32_t>(incoming_.size() - 1);
  }
  const std::uint32_t index = free_incoming_.back();
  free_incoming_.pop_back();
  return index;
}

void TransportMailbox::free_incoming(std::uint32_t index) {
  incoming_[index] = {};
  free_incoming_.push_back(index);
}

void TransportMailbox::accept_on_loop(int peer, const Envelope& letter, std::uint32_t sent_by) {
  if (!fate_of(peer).ok()) {  // late
    if (sent_by != kNone) sent_on_loop(sent_by, fate_of(peer));
    return;
  }
  const std::uint32_t index = take_incoming();
  Incoming& in = incoming_[index];
  in.letter = letter;
  in.peer = peer;
  in.sent_by = sent_by;
  in.number = letter.bytes > 0 && peer != self() ? peer_of(peer).num_placed++ : 0;
  if (letter.kind == kLetterReply) {
    admit_on_loop(index);
    return;
  }
  const auto handler = handlers_.find(letter.kind);
  // Behind those of its kind that wait.
  const bool waits = std::any_of(aside_.begin(), aside_.end(),
                                 [&](std::uint32_t i) { return incoming_[i].letter.kind == letter.kind; });
  if (handler != handlers_.end() && !waits) {
    in.handler = handler->second;
    admit_on_loop(index);
    return;
  }
  aside_.push_back(index);
  if (sent_by == kNone) return;
  // The sender shall not wait for a handler that may be set only afterwards.
  const net::View payload = outgoing_[sent_by].payload;
  if (payload.data != nullptr) {
    in.kept = std::make_unique_for_overwrite<std::byte[]>(payload.bytes);
    std::memcpy(in.kept.get(), payload.data, payload.bytes);
  }
  in.sent_by = kNone;
  sent_on_loop(sent_by, ok_status());
}

// Joins the letters of its peer that are on their way.
void TransportMailbox::admit_on_loop(std::uint32_t index) {
  Incoming& in = incoming_[index];
  const int peer = in.peer;
  Peer& p = peer_of(peer);
  if (p.last == kNone)
    p.first = index;
  else
    incoming_[p.last].next = index;
  p.last = index;
  auto into = in.handler == nullptr ? place_answer(in) : place(in);
  if (!into.ok()) {
    in.state = Incoming::State::kDropped;
    fail_on_loop(peer, in.letter, into.status());
    if (in.sent_by != kNone) sent_on_loop(in.sent_by, into.status());
  } else if (in.letter.bytes == 0) {
    in.state = Incoming::State::kThere;
    if (in.sent_by != kNone) sent_on_loop(in.sent_by, ok_status());
  } else {
    TR_CHECK(into->bytes == in.letter.bytes, "a place of {} bytes for a payload of {}", into->bytes,
             in.letter.bytes);
    if (peer == self())
      copy_to_self(index, *into);
    else
      transport_.recv(peer, payload_identity(in.number), {.kind = 0xFD, .count = in.letter.bytes}, *into,
                      this, cookie(What::kPayload, index));
  }
  deliver_on_loop(peer);
}

Result<net::View> TransportMailbox::place(Incoming& in) {
  if (in.letter.bytes == 0) return net::View{};
  if (!in.handler->place)
    return error(Code::kInvalid, "[comm] a letter of kind {} has {} bytes: expected no payload",
                 in.letter.kind, in.letter.bytes);
  return in.handler->place(in.peer, in.letter);
}

Result<net::View> TransportMailbox::place_answer(Incoming& in) {
  const auto number = static_cast<std::uint32_t>(in.letter.ticket);
  Question* q = find_question(in.letter.ticket);
  if (q == nullptr && number < questions_.size()) return net::View{nullptr, in.letter.bytes};  // given up
  if (q == nullptr || q->peer != in.peer || q->receiving)
    return error(Code::kInvalid, "[comm] rank {} answered what nobody asked it: expected an open question",
                 in.peer);
  if (in.letter.bytes > q->into.bytes)
    return error(Code::kInvalid,
                 "[comm] an answer to a letter of kind {}, key {} has {} bytes: expected at most {}", q->kind,
                 q->key, in.letter.bytes, q->into.bytes);
  in.question = number;
  q->receiving = true;
  return net::View{q->into.data, in.letter.bytes};
}

void TransportMailbox::copy_to_self(std::uint32_t index, net::View into) {
  const Incoming& in = incoming_[index];
  const std::byte* from = in.kept               ? in.kept.get()
                          : in.sent_by != kNone ? outgoing_[in.sent_by].payload.data
                                                : nullptr;
  const std::uint64_t bytes = from == nullptr || into.data == nullptr ? 0 : into.bytes;
  if (into.bytes < static_cast<std::uint64_t>(rt_.is_virtual() ? kInlineBytes : kRealInlineBytes)) {
    if (bytes > 0) std::memcpy(into.data, from, bytes);
    payload_came_on_loop(index, ok_status());
    return;
  }
  runtime::ComputeRequest request;
  request.cost = {0, 2.0 * static_cast<double>(into.bytes)};
  request.label = "letter";
  request.fn = [to = into.data, from, bytes](runtime::ComputeContext&) {
    if (bytes > 0) std::memcpy(to, from, bytes);
  };
  request.done = [this, alive = alive_, index] {
    if (*alive) payload_came_on_loop(index, ok_status());
  };
  rt_.start_compute(std::move(request));
}

void TransportMailbox::payload_came_on_loop(std::uint32_t index, const Status& status) {
  Incoming& in = incoming_[index];
  const int peer = in.peer;
  in.state = status.ok() ? Incoming::State::kThere : Incoming::State::kDropped;
  if (in.sent_by != kNone) sent_on_loop(std::exchange(in.sent_by, kNone), status);
  if (!status.ok()) fail_on_loop(peer, in.letter, status);
  deliver_on_loop(peer);
}

void TransportMailbox::deliver_on_loop(int peer) {
  Peer& p = peer_of(peer);
  while (p.first != kNone && incoming_[p.first].state != Incoming::State::kMoving) {
    const std::uint32_t index = p.first;
    p.first = incoming_[index].next;
    if (p.first == kNone) p.last = kNone;
    hand_over_on_loop(index);
  }
  if (p.first == kNone) tell_lost_on_loop(peer);
}

void TransportMailbox::hand_over_on_loop(std::uint32_t index) {
  const Envelope letter = incoming_[index].letter;
  const int peer = incoming_[index].peer;
  const bool there = incoming_[index].state == Incoming::State::kThere && end_.ok();
  const std::uint32_t number = incoming_[index].question;
  const std::shared_ptr<const EnvelopeHandler> handler = std::move(incoming_[index].handler);
  free_incoming(index);
  if (number != kNone) {
    Question& q = questions_[number];
    q.receiving = false;
    q.answer = letter;
    if (!there && q.error.ok()) q.error = fate_of(peer);
    if (q.done == nullptr)
      drop_question(number);
    else if (there || !q.error.ok())
      close_question(q);
  }
  if (!there) return;
  owner_.on_mail_progress();
  if (handler == nullptr || !handler->arrived) return;
  // Whoever removed it meanwhile may be gone, and the place too.
  const auto registered = handlers_.find(letter.kind);
  if (registered != handlers_.end() && registered->second == handler) handler->arrived(peer, letter);
}

}  // namespace trireme::comm
