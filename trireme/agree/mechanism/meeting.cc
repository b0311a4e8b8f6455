#include "trireme/agree/mechanism/meeting.h"

#include <vector>

namespace trireme::agree {

using comm::Letter;
using runtime::Task;

namespace {

// Where it fails the peer is gone, or gets the same verdict.
Task<void> answer(comm::Mailbox& mail, int peer, Letter asked, Letter letter) {
  const net::View nothing;
  (void)co_await mail.reply(peer, asked, letter, nothing);
}

}  // namespace

struct Meeting::Desk {
  std::vector<bool> gone;  // by worker
  std::vector<int> peers;  // who is here, and with what
  std::vector<Letter> letters;
  Decide decide;

  bool complete() const {
    if (letters.empty()) return false;
    std::vector<bool> missing = gone;
    missing.flip();
    for (const int peer : peers) missing[static_cast<std::size_t>(peer)] = false;
    for (const bool m : missing)
      if (m) return false;
    return true;
  }

  void end_meeting(runtime::Runtime& rt, comm::Mailbox& mail) {
    if (!complete()) return;
    const Letter decided = decide ? decide(letters) : Letter{};
    for (std::size_t i = 0; i < peers.size(); ++i) rt.spawn(answer(mail, peers[i], letters[i], decided));
    peers.clear();
    letters.clear();
  }
};

Meeting::Meeting(runtime::Runtime& rt, comm::Mailbox& mail, std::uint16_t kind, int worker, int num_workers,
                 Decide decide)
    : rt_(rt), mail_(mail), kind_(kind) {
  if (worker != 0) return;
  desk_ = std::make_unique<Desk>();
  desk_->decide = std::move(decide);
  for (int w = 0; w < num_workers; ++w) desk_->gone.push_back(!mail.is_alive(w));
  comm::Mailbox::Handler handler;
  handler.arrived = [this](int peer, const Letter& letter) {
    desk_->peers.push_back(peer);
    desk_->letters.push_back(letter);
    desk_->end_meeting(rt_, mail_);
  };
  mail_.handle(kind_, std::move(handler));
}

Meeting::~Meeting() {
  if (desk_) mail_.handle(kind_, {});
}

Task<Result<Letter>> Meeting::meet(Letter mine) {
  mine.kind = kind_;
  const net::View nothing;
  co_return co_await mail_.ask(0, mine, nothing, nothing);
}

void Meeting::on_lost(int worker) {
  if (!desk_ || static_cast<std::size_t>(worker) >= desk_->gone.size()) return;
  desk_->gone[static_cast<std::size_t>(worker)] = true;
  desk_->end_meeting(rt_, mail_);
}

}  // namespace trireme::agree
