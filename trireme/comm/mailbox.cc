// Sending and asking; mailbox_receive.cc has the other half.
#include "trireme/comm/mailbox.h"

#include <algorithm>
#include <utility>

#include "trireme/comm/transport_mailbox.h"

namespace trireme::comm {
namespace {

constexpr net::Fingerprint kHeadFingerprint{.kind = 0xFE, .dtype = 0, .format = 0, .count = sizeof(Envelope)};
constexpr std::uint64_t kMaxPayloadBytes = (std::uint64_t{1} << 40) - 1;

}  // namespace

// Forgets the frame when it goes, whatever the reason. The slot may serve another letter by then.
struct TransportMailbox::SendWaiter {
  std::shared_ptr<const bool> alive;
  Outgoing& out;
  runtime::OneShot<Status>* mine;
  SendWaiter(std::shared_ptr<const bool> still, Outgoing& o, runtime::OneShot<Status>* done)
      : alive(std::move(still)), out(o), mine(done) {
    out.done = done;
  }
  SendWaiter(const SendWaiter&) = delete;
  SendWaiter& operator=(const SendWaiter&) = delete;
  ~SendWaiter() {
    if (*alive && out.done == mine) out.done = nullptr;
  }
};

struct TransportMailbox::AskWaiter {
  std::shared_ptr<const bool> alive;
  TransportMailbox& mailbox;
  std::uint32_t number;
  AskWaiter(std::shared_ptr<const bool> still, TransportMailbox& m, std::uint32_t n)
      : alive(std::move(still)), mailbox(m), number(n) {}
  AskWaiter(const AskWaiter&) = delete;
  AskWaiter& operator=(const AskWaiter&) = delete;
  ~AskWaiter() {
    if (*alive) mailbox.drop_question(number);
  }
};

TransportMailbox::TransportMailbox(runtime::Runtime& rt, net::Transport& transport, std::uint32_t epoch,
                                   Owner& owner)
    : rt_(rt),
      transport_(transport),
      head_identity_{.epoch = epoch, .group = kMailGroup, .slot = 0, .step = 0, .part = 0},
      owner_(owner),
      alive_(std::make_shared<bool>(true)),
      peers_(static_cast<std::size_t>(transport.world())) {
  for (int peer = 0; peer < transport.world(); ++peer)
    if (peer != self()) post_head(peer);
}

net::Identity TransportMailbox::payload_identity(std::uint32_t number) const {
  net::Identity id = head_identity_;
  id.slot = 1;
  id.step = number;
  return id;
}

void TransportMailbox::post_head(int peer) {
  const net::View view{reinterpret_cast<std::byte*>(&peer_of(peer).head), sizeof(Envelope)};
  transport_.recv(peer, head_identity_, kHeadFingerprint, view, this,
                  cookie(What::kHead, static_cast<std::uint32_t>(peer)));
}

Status TransportMailbox::fate_of(int peer) const {
  if (!end_.ok()) return end_;
  const auto loss = losses_.find(peer);
  return loss == losses_.end() ? ok_status() : loss->second.why;
}

bool TransportMailbox::is_alive(int peer) const {
  return peer >= 0 && peer < transport_.world() && !losses_.contains(peer);
}

Status TransportMailbox::check(int peer, const net::View& payload) const {
  if (peer < 0 || peer >= transport_.world())
    return error(Code::kInvalid, "[comm] a letter to rank {}: expected 0..{}; fix the caller", peer,
                 transport_.world() - 1);
  if (payload.bytes > kMaxPayloadBytes)
    return error(Code::kInvalid, "[comm] a letter to rank {} has {} bytes: expected at most {}; cut it", peer,
                 payload.bytes, kMaxPayloadBytes);
  return fate_of(peer);
}

void TransportMailbox::on_complete(std::uint64_t cookie, const Status& status) {
  const auto index = static_cast<std::uint32_t>(cookie >> 2);
  switch (static_cast<What>(cookie & 3)) {
    case What::kHead: {
      const int peer = static_cast<int>(index);
      if (!status.ok()) {
        fail_on_loop(peer, {}, status);
        break;
      }
      const Envelope letter = peer_of(peer).head;
      post_head(peer);
      accept_on_loop(peer, letter, kNone);
      break;
    }
    case What::kPayload:
      payload_came_on_loop(index, status);
      break;
    case What::kSend:
      sent_on_loop(index, status);
      break;
  }
}

// Does nothing for a peer that has left or was lost: the membership knows of it already.
void TransportMailbox::fail_on_loop(int peer, const Envelope& letter, const Status& why) {
  if (!fate_of(peer).ok()) return;
  // Letters are no calls: that ranks differ in them is the sender's fault alone.
  const Code code = why.code() == Code::kMismatch ? Code::kInvalid : why.code();
  const std::string& reason = why.context().reason;
  owner_.on_mail_failed(peer, code, fmt::format("a letter of kind {}, key {}", letter.kind, letter.key()),
                        reason.empty() ? why.message() : reason);
}

runtime::Task<Status> TransportMailbox::send_envelope(int peer, Envelope letter, net::View payload) {
  TR_CO_RETURN_IF_ERROR(check(peer, payload));
  if (letter.kind == kLetterReply)
    co_return error(Code::kInvalid, "[comm] kind 0 is the mailbox's own: expected a kind of letter_kinds.h");
  letter.ticket = 0;
  co_return co_await post(peer, letter, payload);
}

runtime::Task<Status> TransportMailbox::reply_envelope(int peer, Envelope answer, net::View payload) {
  answer.kind = kLetterReply;
  TR_CO_RETURN_IF_ERROR(check(peer, payload));
  if (answer.ticket == 0)
    co_return error(Code::kInvalid, "[comm] a reply to a letter that asks nothing: expected one of ask()");
  co_return co_await post(peer, answer, payload);
}

runtime::Task<Status> TransportMailbox::post(int peer, Envelope letter, net::View payload) {
  std::uint32_t number = static_cast<std::uint32_t>(outgoing_.size());
  if (free_outgoing_.empty()) {
    outgoing_.emplace_back();
  } else {
    number = free_outgoing_.back();
    free_outgoing_.pop_back();
  }
  runtime::OneShot<Status> done(rt_);
  const SendWaiter waiter(alive_, outgoing_[number], &done);
  dispatch(number, peer, letter, payload);
  // Bounded by the membership: a lost, silent or stuck rank ends it.
  co_await done.wait_until(kForever);
  co_return done.value();
}

void TransportMailbox::dispatch(std::uint32_t number, int peer, const Envelope& letter, net::View payload) {
  Outgoing& out = outgoing_[number];
  out.head = letter;
  out.head.bytes = payload.bytes;
  out.peer = peer;
  out.error = ok_status();
  out.num_left = 1;
  if (peer == self()) {
    out.payload = payload;
    rt_.post([this, alive = alive_, number] {
      if (*alive) accept_on_loop(self(), outgoing_[number].head, number);
    });
    return;
  }
  const net::View head{reinterpret_cast<std::byte*>(&out.head), sizeof(Envelope)};
  transport_.send(peer, head_identity_, kHeadFingerprint, head, this, cookie(What::kSend, number));
  if (payload.bytes == 0) return;
  ++out.num_left;
  transport_.send(peer, payload_identity(peer_of(peer).num_sent++), {.kind = 0xFD, .count = payload.bytes},
                  payload, this, cookie(What::kSend, number));
}

void TransportMailbox::sent_on_loop(std::uint32_t number, const Status& status) {
  Outgoing& out = outgoing_[number];
  if (out.error.ok()) out.error = status;
  if (--out.num_left > 0) return;
  if (out.error.ok()) {
    finish(number, ok_status());
    return;
  }
  fail_on_loop(out.peer, out.head, out.error);
  settle_on_loop(number);
}

// A letter that failed ends with the verdict or the loss, once that is there.
void TransportMailbox::settle_on_loop(std::uint32_t number) {
  const Outgoing& out = outgoing_[number];
  if (out.peer < 0 || out.num_left > 0) return;
  if (const Status fate = fate_of(out.peer); !fate.ok()) finish(number, fate);
}

void TransportMailbox::finish(std::uint32_t number, const Status& status) {
  Outgoing& out = outgoing_[number];
  if (auto* done = std::exchange(out.done, nullptr)) done->set(status);
  out.peer = -1;
  free_outgoing_.push_back(number);
}

runtime::Task<Result<Envelope>> TransportMailbox::ask_envelope(int peer, Envelope letter, net::View payload,
                                                               net::View into) {
  TR_CO_RETURN_IF_ERROR(check(peer, payload));
  if (letter.kind == kLetterReply)
    co_return error(Code::kInvalid, "[comm] kind 0 is the mailbox's own: expected a kind of letter_kinds.h");
  const std::uint32_t number = open_question(peer, letter, into);
  runtime::OneShot<bool> done(rt_);
  questions_[number].done = &done;
  const AskWaiter waiter(alive_, *this, number);
  letter.ticket = (std::uint64_t{questions_[number].generation} << 32) | number;
  const Status sent = co_await post(peer, letter, payload);
  // What ends the sending ends the question too, once nothing comes into `into` any more.
  if (!sent.ok() && !questions_[number].receiving) co_return sent;
  co_await done.wait_until(kForever);
  if (!questions_[number].error.ok()) co_return questions_[number].error;
  co_return questions_[number].answer;
}

std::uint32_t TransportMailbox::open_question(int peer, const Envelope& letter, net::View into) {
  std::uint32_t number = static_cast<std::uint32_t>(questions_.size());
  if (free_questions_.empty()) {
    questions_.emplace_back();
  } else {
    number = free_questions_.back();
    free_questions_.pop_back();
  }
  Question& q = questions_[number];
  q.peer = peer;
  q.kind = letter.kind;
  q.key = letter.key();
  q.serial = ++num_questions_;
  q.into = into;
  q.error = ok_status();
  q.receiving = false;
  open_.push_back(number);
  if (open_.size() == 1) owner_.on_mail_waiting();
  return number;
}

TransportMailbox::Question* TransportMailbox::find_question(std::uint64_t ticket) {
  const auto number = static_cast<std::uint32_t>(ticket);
  if (number >= questions_.size()) return nullptr;
  Question& q = questions_[number];
  return q.peer >= 0 && q.generation == static_cast<std::uint32_t>(ticket >> 32) ? &q : nullptr;
}

// Answered, or failed: its frame goes on.
void TransportMailbox::close_question(Question& q) {
  const auto at = std::find_if(open_.begin(), open_.end(),
                               [&](std::uint32_t number) { return &questions_[number] == &q; });
  if (at == open_.end()) return;
  const bool oldest = at == open_.begin();
  open_.erase(at);
  if (q.done != nullptr) q.done->set(true);
  if (oldest) owner_.on_mail_waiting();
}

// The frame goes. While an answer is on its way into its memory the number stays taken.
void TransportMailbox::drop_question(std::uint32_t number) {
  Question& q = questions_[number];
  q.done = nullptr;
  if (q.receiving) return;
  close_question(q);
  q.peer = -1;
  ++q.generation;
  free_questions_.push_back(number);
}

std::string TransportMailbox::question_text() const {
  if (open_.empty()) return {};
  const Question& q = questions_[open_.front()];
  return fmt::format("a letter of kind {}, key {}", q.kind, q.key);
}

void TransportMailbox::end_all(const Status& why) {
  if (!end_.ok()) return;
  end_ = why;
  for (std::uint32_t number = 0; number < outgoing_.size(); ++number) settle_on_loop(number);
  for (const std::uint32_t index : std::exchange(aside_, {})) free_incoming(index);
  for (const std::uint32_t number : std::vector<std::uint32_t>(open_.begin(), open_.end())) {
    questions_[number].error = why;
    if (!questions_[number].receiving) close_question(questions_[number]);
  }
}

void TransportMailbox::lost(int peer, const Status& why) {
  if (!end_.ok() || !losses_.try_emplace(peer, Loss{why}).second) return;
  for (std::uint32_t number = 0; number < outgoing_.size(); ++number) settle_on_loop(number);
  std::erase_if(aside_, [&](std::uint32_t index) {
    if (incoming_[index].peer != peer) return false;
    free_incoming(index);
    return true;
  });
  for (const std::uint32_t number : std::vector<std::uint32_t>(open_.begin(), open_.end())) {
    Question& q = questions_[number];
    if (q.peer != peer) continue;
    q.error = why;
    if (!q.receiving) close_question(q);
  }
  deliver_on_loop(peer);
}

void TransportMailbox::on_lost(std::function<void(int, const Status&)> listener) {
  listeners_.push_back(std::make_shared<const std::function<void(int, const Status&)>>(std::move(listener)));
  for (const auto& [peer, loss] : losses_)
    if (loss.told)
      rt_.post([this, alive = alive_, to = listeners_.back(), from = peer] {
        if (*alive) (*to)(from, losses_.at(from).why);
      });
}

// Once nothing of the peer's goes into anybody's memory any more.
void TransportMailbox::tell_lost_on_loop(int peer) {
  const auto loss = losses_.find(peer);
  if (loss == losses_.end() || std::exchange(loss->second.told, true)) return;
  const std::size_t num_listeners = listeners_.size();  // later ones are told by on_lost()
  for (std::size_t i = 0; i < num_listeners; ++i) {
    const auto listener = listeners_[i];
    (*listener)(peer, loss->second.why);
  }
}

}  // namespace trireme::comm
