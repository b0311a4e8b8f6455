// Mailbox: messages between ranks outside collectives, where the receiver does not know who writes next:
// parameter servers, gossip, leases.
//
// A letter is a head of fixed size and a payload that goes straight into memory which the receiver's handler
// names. Letters of one pair of ranks arrive in the order in which they were sent. A rank may write to
// itself. Everything runs on the loop; handlers must not block, and start Tasks for what takes time.
//
// Who fails: a rank that is expendable (Group::set_expendable) and is lost takes nobody along. What was under
// way with it ends with kPeerLost, on_lost() tells everybody once, and letters to it are refused with
// kPeerLost. Any other loss is the group's verdict, which every operation returns. No wait needs a deadline
// of its own: a peer that is gone, silent or stuck is the membership's business.
#pragma once

#include <functional>

#include "trireme/net/transport.h"
#include "trireme/runtime/runtime.h"

namespace trireme::comm {

// `kind` names the receiver's handler (letter_kinds.h); what the other fields mean is its business.
struct Letter {
  std::uint16_t kind = 0;
  std::uint16_t flags = 0;
  std::uint32_t key = 0;
  std::int64_t clock = 0;
  std::int64_t number = 0;
  double value = 0, value2 = 0;
  std::uint64_t ticket = 0;  // of ask(): the mailbox's own
  std::uint64_t bytes = 0;   // of the payload: set by the mailbox
};

class Mailbox {
 public:
  virtual ~Mailbox() = default;

  struct Handler {
    // Where the payload goes: exactly letter.bytes. Called once the head is there, for letters that have a
    // payload; null: such letters are refused. An error is the sender's fault and becomes the verdict.
    std::function<Result<net::View>(int peer, const Letter& letter)> place;
    // The letter is there whole.
    std::function<void(int peer, const Letter& letter)> arrived;
  };
  // Before the first letter of that kind can arrive, or letters wait until it is set. Empty handlers:
  // removed, and letters that are on their way to a place it named do not arrive.
  virtual void handle(std::uint16_t kind, Handler handler) = 0;

  // Ends when the payload's memory may be used again.
  virtual runtime::Task<Status> send(int peer, Letter letter, net::View payload) = 0;
  // Sends and waits for the answer, whose payload goes into `into` (its bytes must fit; more is a mismatch).
  virtual runtime::Task<Result<Letter>> ask(int peer, Letter letter, net::View payload, net::View into) = 0;
  // Answers a letter that came by ask(). Ends when the payload's memory may be used again.
  virtual runtime::Task<Status> reply(int peer, const Letter& asked, Letter answer, net::View payload) = 0;

  virtual bool is_alive(int peer) const = 0;
  // Adds a listener; told once of every expendable rank that is lost, on every other rank.
  virtual void on_lost(std::function<void(int peer, const Status& why)> listener) = 0;
};

}  // namespace trireme::comm
