// TransportMailbox: the Mailbox of a group over its Transport.
//
// A letter is one message with its head and, where it has a payload, a second one (docs/format_wire.md,
// "Letters"). All heads of a pair of ranks have one identity, which keeps them in order; one recv per peer is
// posted ahead. Once the head is there the handler says where the payload goes, and its recv is posted before
// the transport looks at it: nothing is kept in between. A letter arrives when it is whole and those of the
// same peer before it have arrived. One whose kind nobody handles yet stands aside and does not stop others.
//
// The memory of everything under way is in slots that are used again.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "trireme/comm/letter_kinds.h"
#include "trireme/comm/mailbox.h"
#include "trireme/runtime/sync.h"

namespace trireme::comm {

// Letters travel under a group id that no group may have.
inline constexpr std::uint16_t kMailGroup = 0xFFFE;

class TransportMailbox final : public Mailbox, private net::Completion {
 public:
  // The group that owns it.
  class Owner {
   public:
    virtual ~Owner() = default;
    virtual void on_mail_progress() = 0;
    virtual void on_mail_waiting() = 0;  // oldest_question() changed
    // Becomes the verdict, or the loss of the peer: end_all() or lost() follows.
    virtual void on_mail_failed(int peer, Code code, std::string operation, std::string reason) = 0;
  };

  TransportMailbox(runtime::Runtime& rt, net::Transport& transport, std::uint32_t epoch, Owner& owner);
  ~TransportMailbox() override { *alive_ = false; }

  void set_handler(std::uint16_t kind, EnvelopeHandler handler) override;
  runtime::Task<Status> send_envelope(int peer, Envelope letter, net::View payload) override;
  runtime::Task<Result<Envelope>> ask_envelope(int peer, Envelope letter, net::View payload,
                                               net::View into) override;
  runtime::Task<Status> reply_envelope(int peer, Envelope answer, net::View payload) override;
  bool is_alive(int peer) const override;
  void on_lost(std::function<void(int, const Status&)> listener) override;

  // Everything under way and later ends with `why`. The transport is poisoned or nothing is under way in it.
  void end_all(const Status& why);
  // The transport was told to forget this peer.
  void lost(int peer, const Status& why);

  // The oldest question without an answer: its serial number (0: there is none), whom it was put to, which.
  std::uint64_t oldest_question() const { return open_.empty() ? 0 : questions_[open_.front()].serial; }
  int asks() const { return open_.empty() ? -1 : questions_[open_.front()].peer; }
  std::string question_text() const;

 private:
  static constexpr std::uint32_t kNone = UINT32_MAX;
  enum class What : std::uint8_t { kHead, kPayload, kSend };  // in the low bits of cookies

  struct Peer {
    Envelope head;                               // of the recv that is posted
    std::uint32_t num_sent = 0, num_placed = 0;  // payloads
    std::uint32_t first = kNone, last = kNone;   // letters on their way, in order
  };
  struct Outgoing {
    Envelope head;
    net::View payload;  // to itself only
    int peer = -1;      // -1: free
    int num_left = 0;   // messages under way
    Status error;
    runtime::OneShot<Status>* done = nullptr;  // in the waiting frame
  };
  struct Incoming {
    enum class State : std::uint8_t { kMoving, kThere, kDropped };
    Envelope letter;
    int peer = 0;
    State state = State::kMoving;
    std::uint32_t next = kNone;
    std::uint32_t number = 0;                        // of its payload
    std::uint32_t sent_by = kNone;                   // to itself: the Outgoing whose payload is copied
    std::uint32_t question = kNone;                  // whose answer it is
    std::shared_ptr<const EnvelopeHandler> handler;  // null: an answer
    std::unique_ptr<std::byte[]> kept;               // to itself, payload of a letter that stood aside
  };
  struct Question {
    std::uint32_t generation = 1;
    int peer = -1;  // -1: free
    std::uint16_t kind = 0;
    bool receiving = false;  // the answer's payload is on its way into `into`
    std::uint32_t key = 0;
    std::uint64_t serial = 0;
    net::View into;
    Envelope answer;
    Status error;
    runtime::OneShot<bool>* done = nullptr;  // null: its frame is gone
  };
  struct Loss {
    Status why;
    bool told = false;
  };
  struct SendWaiter;
  struct AskWaiter;

  int self() const { return transport_.rank(); }
  Peer& peer_of(int rank) { return peers_[static_cast<std::size_t>(rank)]; }
  net::Identity payload_identity(std::uint32_t number) const;
  static std::uint64_t cookie(What what, std::uint32_t index) {
    return (std::uint64_t{index} << 2) | static_cast<std::uint64_t>(what);
  }
  // ok, the verdict, or the loss of that peer.
  Status fate_of(int peer) const;
  Status check(int peer, const net::View& payload) const;
  void on_complete(std::uint64_t cookie, const Status& status) override;
  void on_piece(std::uint64_t, std::uint64_t) override { owner_.on_mail_progress(); }
  bool at_once() const override { return true; }
  void fail_on_loop(int peer, const Envelope& letter, const Status& why);

  // Sending.
  runtime::Task<Status> post(int peer, Envelope letter, net::View payload);
  void dispatch(std::uint32_t number, int peer, const Envelope& letter, net::View payload);
  void sent_on_loop(std::uint32_t number, const Status& status);
  void settle_on_loop(std::uint32_t number);
  void finish(std::uint32_t number, const Status& status);

  // Receiving (mailbox_receive.cc).
  void post_head(int peer);
  void accept_on_loop(int peer, const Envelope& letter, std::uint32_t sent_by);
  void admit_on_loop(std::uint32_t index);
  Result<net::View> place(Incoming& in);
  Result<net::View> place_answer(Incoming& in);
  void copy_to_self(std::uint32_t index, net::View into);
  void payload_came_on_loop(std::uint32_t index, const Status& status);
  void deliver_on_loop(int peer);
  void hand_over_on_loop(std::uint32_t index);
  void let_in_on_loop();
  std::uint32_t take_incoming();
  void free_incoming(std::uint32_t index);

  // Asking.
  std::uint32_t open_question(int peer, const Envelope& letter, net::View into);
  Question* find_question(std::uint64_t ticket);
  void close_question(Question& q);
  void drop_question(std::uint32_t number);
  void tell_lost_on_loop(int peer);

  runtime::Runtime& rt_;
  net::Transport& transport_;
  const net::Identity head_identity_;
  Owner& owner_;
  const std::shared_ptr<bool> alive_;  // false: this is gone, frames that wait here may be destroyed later
  Status end_;
  std::vector<Peer> peers_;
  std::deque<Outgoing> outgoing_;
  std::deque<Incoming> incoming_;
  std::deque<Question> questions_;
  std::vector<std::uint32_t> free_outgoing_, free_incoming_, free_questions_;
  std::deque<std::uint32_t> open_;    // questions without an answer, oldest first
  std::vector<std::uint32_t> aside_;  // letters of kinds that nobody handles yet, in order
  std::uint64_t num_questions_ = 0;
  std::map<std::uint16_t, std::shared_ptr<const EnvelopeHandler>> handlers_;
  std::map<int, Loss> losses_;
  std::vector<std::shared_ptr<const std::function<void(int, const Status&)>>> listeners_;
};

}  // namespace trireme::comm
