#include "trireme/agree/mechanism/turns.h"

#include <algorithm>
#include <deque>

namespace trireme::agree {

using comm::Letter;
using runtime::Task;

namespace {

// Where it fails the peer is gone, and its turn passes on with on_lost().
Task<void> grant(comm::Mailbox& mail, int peer, comm::Ticket<TurnAnswer> asked, TurnAnswer answer) {
  const net::View nothing;
  (void)co_await mail.reply(peer, asked, answer, nothing);
}

}  // namespace

struct Turns::Desk {
  struct Asked {
    int peer = 0;
    comm::Ticket<TurnAnswer> ticket;
  };
  std::deque<Asked> waiting;
  int holder = -1;
  std::int64_t turns = 0;

  void next(runtime::Runtime& rt, comm::Mailbox& mail) {
    if (holder >= 0 || waiting.empty()) return;
    const Asked asked = waiting.front();
    waiting.pop_front();
    holder = asked.peer;
    rt.spawn(grant(mail, asked.peer, asked.ticket, TurnAnswer{turns++}));
  }
};

Turns::Turns(runtime::Runtime& rt, comm::Mailbox& mail, int worker) : rt_(rt), mail_(mail) {
  if (worker != 0) return;
  desk_ = std::make_unique<Desk>();
  comm::Mailbox::Handler<TakeTurnHead> asks;
  asks.arrived = [this](int peer, const Letter<TakeTurnHead>& letter) {
    desk_->waiting.push_back({peer, letter.ticket});
    desk_->next(rt_, mail_);
  };
  comm::Mailbox::Handler<PassTurnHead> passes;
  passes.arrived = [this](int peer, const Letter<PassTurnHead>&) {
    if (desk_->holder != peer) return;  // its turn passed on when it was lost
    desk_->holder = -1;
    desk_->next(rt_, mail_);
  };
  mail_.handle(std::move(asks));
  mail_.handle(std::move(passes));
}

Turns::~Turns() {
  if (!desk_) return;
  mail_.stop_handling<TakeTurnHead>();
  mail_.stop_handling<PassTurnHead>();
}

Task<Result<std::int64_t>> Turns::take() {
  const TakeTurnHead take;
  const net::View nothing;
  const auto granted = co_await mail_.ask(0, take, nothing, nothing);
  if (!granted.ok()) co_return granted.status();
  co_return granted->head.turn;
}

Task<Status> Turns::pass() {
  const PassTurnHead pass;
  const net::View nothing;
  co_return co_await mail_.send(0, pass, nothing);
}

void Turns::on_lost(int worker) {
  if (!desk_) return;
  std::erase_if(desk_->waiting, [worker](const Desk::Asked& a) { return a.peer == worker; });
  if (desk_->holder == worker) desk_->holder = -1;
  desk_->next(rt_, mail_);
}

}  // namespace trireme::agree
