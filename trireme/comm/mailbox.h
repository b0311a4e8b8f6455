// Mailbox: messages between ranks outside collectives, where the receiver does not know who writes next:
// parameter servers, gossip, leases.
//
// A letter is a head, which is a struct of its kind (letter.h), and a payload that goes straight into memory
// which the receiver's handler names. Letters of one pair of ranks arrive in the order in which they were
// sent. A rank may write to itself. Everything runs on the loop; handlers must not block, and start Tasks for
// what takes time.
//
// Who fails: a rank that is expendable (Group::set_expendable) and is lost takes nobody along. What was under
// way with it ends with kPeerLost, on_lost() tells everybody once, and letters to it are refused with
// kPeerLost. Any other loss is the group's verdict, which every operation returns. No wait needs a deadline
// of its own: a peer that is gone, silent or stuck is the membership's business.
#pragma once

#include <functional>
#include <utility>

#include "trireme/comm/letter.h"
#include "trireme/net/transport.h"
#include "trireme/runtime/runtime.h"

namespace trireme::comm {

// A letter of a kind whose heads have sorts, and of a sort that is none of them.
struct UnknownLetter {
  std::uint16_t flags = 0;
};

class Mailbox {
 public:
  virtual ~Mailbox() = default;

  template <AnyHead H>
  struct Handler {
    // Where the payload goes: exactly letter.bytes. Called once the head is there, for letters that have a
    // payload; null: such letters are refused. An error is the sender's fault and becomes the verdict.
    std::function<Result<net::View>(int peer, const Letter<H>& letter)> place;
    // The letter is there whole.
    std::function<void(int peer, const Letter<H>& letter)> arrived;
  };
  // Before the first letter of that kind can arrive, or letters wait until it is set. `receiver`: the number
  // of this one, where there are many.
  template <HeadWithKind H>
  void handle(Handler<H> handler) {
    set_handler(H::kKind, envelope_handler(std::move(handler)));
  }
  template <HeadOfMany H>
  void handle(int receiver, Handler<H> handler) {
    set_handler(kind_of<H>(receiver), envelope_handler(std::move(handler)));
  }
  // All heads that share their kinds: place(peer, letter) and arrived(peer, letter) are called with a
  // Letter<Head> of each of them, or with an UnknownLetter.
  template <HeadWithSort... Heads, typename Place, typename Arrived>
  void handle_sorts(int receiver, Place place, Arrived arrived);
  // Letters that are on their way to a place that the handler named do not arrive.
  template <HeadWithKind H>
  void stop_handling() {
    set_handler(H::kKind, {});
  }
  template <HeadOfMany H>
  void stop_handling(int receiver) {
    set_handler(kind_of<H>(receiver), {});
  }

  // Ends when the payload's memory may be used again.
  template <HeadWithKind H>
  runtime::Task<Status> send(int peer, const H& head, net::View payload) {
    return send_envelope(peer, pack(H::kKind, head), payload);
  }
  template <HeadOfMany H>
  runtime::Task<Status> send(int peer, int receiver, const H& head, net::View payload) {
    return send_envelope(peer, pack(kind_of<H>(receiver), head), payload);
  }
  // Sends and waits for the answer, whose payload goes into `into` (its bytes must fit; more is a mismatch).
  template <HeadWithKind H>
  runtime::Task<Result<Letter<typename H::Answer>>> ask(int peer, const H& head, net::View payload,
                                                        net::View into) {
    return answered<typename H::Answer>(ask_envelope(peer, pack(H::kKind, head), payload, into));
  }
  template <HeadOfMany H>
  runtime::Task<Result<Letter<typename H::Answer>>> ask(int peer, int receiver, const H& head,
                                                        net::View payload, net::View into) {
    return answered<typename H::Answer>(ask_envelope(peer, pack(kind_of<H>(receiver), head), payload, into));
  }
  // Answers a letter that came by ask(). Ends when the payload's memory may be used again.
  template <AnyHead Answer>
  runtime::Task<Status> reply(int peer, Ticket<Answer> asked, const Answer& answer, net::View payload) {
    Envelope envelope = pack(0, answer);
    envelope.ticket = asked.number;
    return reply_envelope(peer, envelope, payload);
  }

  virtual bool is_alive(int peer) const = 0;
  // Adds a listener; told once of every expendable rank that is lost, on every other rank.
  virtual void on_lost(std::function<void(int peer, const Status& why)> listener) = 0;

  // The same of letters as they travel, for whoever implements a mailbox or stands before one. Empty
  // handlers: removed.
  struct EnvelopeHandler {
    std::function<Result<net::View>(int peer, const Envelope& envelope)> place;
    std::function<void(int peer, const Envelope& envelope)> arrived;
  };
  virtual void set_handler(std::uint16_t kind, EnvelopeHandler handler) = 0;
  virtual runtime::Task<Status> send_envelope(int peer, Envelope envelope, net::View payload) = 0;
  virtual runtime::Task<Result<Envelope>> ask_envelope(int peer, Envelope envelope, net::View payload,
                                                       net::View into) = 0;
  virtual runtime::Task<Status> reply_envelope(int peer, Envelope answer, net::View payload) = 0;

 private:
  template <AnyHead H>
  static EnvelopeHandler envelope_handler(Handler<H> handler);
  template <AnyHead Answer>
  static runtime::Task<Result<Letter<Answer>>> answered(runtime::Task<Result<Envelope>> question) {
    const Result<Envelope> answer = co_await question;
    if (!answer.ok()) co_return answer.status();
    co_return unpack<Answer>(*answer);
  }
};

template <AnyHead H>
Mailbox::EnvelopeHandler Mailbox::envelope_handler(Handler<H> handler) {
  EnvelopeHandler raw;
  if (handler.place)
    raw.place = [place = std::move(handler.place)](int peer, const Envelope& from) {
      return place(peer, unpack<H>(from));
    };
  if (handler.arrived)
    raw.arrived = [arrived = std::move(handler.arrived)](int peer, const Envelope& from) {
      arrived(peer, unpack<H>(from));
    };
  return raw;
}

// Calls `fn` with the letter as what it is.
template <HeadWithSort... Heads, typename Fn>
void with_sort(const Envelope& from, Fn&& fn) {
  const std::uint8_t sort = sort_of(from);
  const bool known = ((sort == Heads::kSort && (fn(unpack<Heads>(from)), true)) || ...);
  if (!known) fn(UnknownLetter{from.get<std::uint16_t>(kFlagsAt)});
}

template <HeadWithSort... Heads, typename Place, typename Arrived>
void Mailbox::handle_sorts(int receiver, Place place, Arrived arrived) {
  using First = std::tuple_element_t<0, std::tuple<Heads...>>;
  static_assert(((Heads::kFirstKind == First::kFirstKind) && ...), "sorts are of one range of kinds");
  EnvelopeHandler raw;
  raw.place = [place = std::move(place)](int peer, const Envelope& from) {
    Result<net::View> view = net::View{};
    with_sort<Heads...>(from, [&](const auto& letter) { view = place(peer, letter); });
    return view;
  };
  raw.arrived = [arrived = std::move(arrived)](int peer, const Envelope& from) {
    with_sort<Heads...>(from, [&](const auto& letter) { arrived(peer, letter); });
  };
  set_handler(kind_of<First>(receiver), std::move(raw));
}

}  // namespace trireme::comm
