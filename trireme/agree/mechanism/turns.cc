#include "trireme/agree/mechanism/turns.h"

#include <algorithm>
#include <deque>

namespace trireme::agree {

using comm::Letter;
using runtime::Task;

namespace {

// Where it fails the peer is gone, and its turn passes on with on_lost().
Task<void> grant(comm::Mailbox& mail, int peer, Letter asked, Letter letter) {
  const net::View nothing;
  (void)co_await mail.reply(peer, asked, letter, nothing);
}

}  // namespace

struct Turns::Desk {
  struct Asked {
    int peer = 0;
    Letter letter;
  };
  std::deque<Asked> waiting;
  int holder = -1;
  std::int64_t turns = 0;

  void next(runtime::Runtime& rt, comm::Mailbox& mail) {
    if (holder >= 0 || waiting.empty()) return;
    const Asked asked = waiting.front();
    waiting.pop_front();
    holder = asked.peer;
    Letter letter;
    letter.number = turns++;
    rt.spawn(grant(mail, asked.peer, asked.letter, letter));
  }
};

Turns::Turns(runtime::Runtime& rt, comm::Mailbox& mail, std::uint16_t kind, int worker)
    : rt_(rt), mail_(mail), kind_(kind) {
  if (worker != 0) return;
  desk_ = std::make_unique<Desk>();
  comm::Mailbox::Handler asks, passes;
  asks.arrived = [this](int peer, const Letter& letter) {
    desk_->waiting.push_back({peer, letter});
    desk_->next(rt_, mail_);
  };
  passes.arrived = [this](int peer, const Letter&) {
    if (desk_->holder != peer) return;  // its turn passed on when it was lost
    desk_->holder = -1;
    desk_->next(rt_, mail_);
  };
  mail_.handle(kind_, std::move(asks));
  mail_.handle(static_cast<std::uint16_t>(kind_ + 1), std::move(passes));
}

Turns::~Turns() {
  if (!desk_) return;
  mail_.handle(kind_, {});
  mail_.handle(static_cast<std::uint16_t>(kind_ + 1), {});
}

Task<Result<std::int64_t>> Turns::take() {
  Letter letter;
  letter.kind = kind_;
  const net::View nothing;
  auto granted = co_await mail_.ask(0, letter, nothing, nothing);
  if (!granted.ok()) co_return granted.status();
  co_return granted->number;
}

Task<Status> Turns::pass() {
  Letter letter;
  letter.kind = static_cast<std::uint16_t>(kind_ + 1);
  const net::View nothing;
  co_return co_await mail_.send(0, letter, nothing);
}

void Turns::on_lost(int worker) {
  if (!desk_) return;
  std::erase_if(desk_->waiting, [worker](const Desk::Asked& a) { return a.peer == worker; });
  if (desk_->holder == worker) desk_->holder = -1;
  desk_->next(rt_, mail_);
}

}  // namespace trireme::agree
