// Meeting: all live workers wait for each other, by letters through rank 0, and leave with one answer.
//
// For rules whose workers may be lost, where a barrier of the group would fail for everybody: who is gone is
// not waited for. Works on phantom Runtimes, where heads of letters travel and payloads do not. Every wait
// ends with the mailbox's verdict when rank 0 is lost.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "trireme/comm/letter_kinds.h"
#include "trireme/comm/mailbox.h"
#include "trireme/runtime/runtime.h"

namespace trireme::agree {

// Who is at the meeting under way, by worker. Pure.
class Attendance {
 public:
  explicit Attendance(std::vector<bool> gone) : gone_(std::move(gone)) {}
  void arrive(int worker) { here_.push_back(worker); }
  void lose(int worker) {
    if (static_cast<std::size_t>(worker) < gone_.size()) gone_[static_cast<std::size_t>(worker)] = true;
  }
  // Somebody is here, and everybody who is not gone is.
  bool is_complete() const;
  std::vector<int> take() { return std::exchange(here_, {}); }

 private:
  std::vector<bool> gone_;
  std::vector<int> here_;  // in order of arrival
};

// `Head` is what workers say, Head::Answer what they are told; nothing else uses the kind of Head.
template <comm::HeadWithKind Head>
class Meeting {
 public:
  using Answer = typename Head::Answer;
  // What rank 0 makes of everybody's words, in order of arrival.
  using Decide = std::function<Answer(std::span<const Head> said)>;

  // Worker w is peer w of the mailbox. All workers make one.
  Meeting(runtime::Runtime& rt, comm::Mailbox& mail, int worker, int num_workers, Decide decide = nullptr)
      : rt_(rt), mail_(mail), decide_(std::move(decide)) {
    if (worker != 0) return;
    std::vector<bool> gone;
    for (int w = 0; w < num_workers; ++w) gone.push_back(!mail.is_alive(w));
    attendance_.emplace(std::move(gone));
    comm::Mailbox::Handler<Head> handler;
    handler.arrived = [this](int peer, const comm::Letter<Head>& letter) {
      attendance_->arrive(peer);
      said_.push_back(letter.head);
      tickets_.push_back(letter.ticket);
      end_when_complete();
    };
    mail_.handle(std::move(handler));
  }
  ~Meeting() {
    if (attendance_) mail_.template stop_handling<Head>();
  }
  Meeting(const Meeting&) = delete;
  Meeting& operator=(const Meeting&) = delete;

  // Ends when every live worker has called it; the same answer on all of them.
  runtime::Task<Result<Answer>> meet(Head mine) {
    const net::View nothing;
    const Result<comm::Letter<Answer>> answer = co_await mail_.ask(0, mine, nothing, nothing);
    if (!answer.ok()) co_return answer.status();
    co_return answer->head;
  }
  // Another worker is gone: nobody waits for it.
  void on_lost(int worker) {
    if (!attendance_) return;
    attendance_->lose(worker);
    end_when_complete();
  }

 private:
  // Where it fails the peer is gone, or gets the same verdict.
  static runtime::Task<void> tell(comm::Mailbox& mail, int peer, comm::Ticket<Answer> asked, Answer answer) {
    const net::View nothing;
    (void)co_await mail.reply(peer, asked, answer, nothing);
  }
  void end_when_complete() {
    if (!attendance_->is_complete()) return;
    const Answer decided = decide_ ? decide_(said_) : Answer{};
    const std::vector<int> here = attendance_->take();
    for (std::size_t i = 0; i < here.size(); ++i) rt_.spawn(tell(mail_, here[i], tickets_[i], decided));
    said_.clear();
    tickets_.clear();
  }

  runtime::Runtime& rt_;
  comm::Mailbox& mail_;
  Decide decide_;
  std::optional<Attendance> attendance_;  // rank 0
  std::vector<Head> said_;
  std::vector<comm::Ticket<Answer>> tickets_;
};

// Workers that meet and say nothing.
struct HereHead {
  static constexpr std::uint16_t kKind = comm::kLetterRuleFirst;
  static constexpr auto kFields = comm::head_fields();
  using Answer = comm::EmptyHead;
};

}  // namespace trireme::agree
