// Words of a replica: what the rank that speaks for it hears from rank 0, in order, as its other ranks hear
// it from that rank. So all of them take the same units and do the same at meetings.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "trireme/comm/mailbox.h"
#include "trireme/train/coordinator_letters.h"

namespace trireme::train {

// A unit to work on, or none: the answer to the question for the word of that number, counted from 0.
struct UnitWord {
  bool has_unit = false;
  std::uint32_t shard = 0;
  std::int64_t batch = 0, round = 0;
  static constexpr auto kFields =
      head_fields(comm::flag<1>(&UnitWord::has_unit), comm::at<4>(&UnitWord::shard),
                  comm::at<8>(&UnitWord::batch), comm::at<16>(&UnitWord::round));
};
struct UnitWordHead {
  static constexpr std::uint16_t kKind = comm::kLetterCoordinatorFirst + 10;
  std::int64_t number = 0;
  static constexpr auto kFields = head_fields(comm::at<8>(&UnitWordHead::number));
  using Answer = UnitWord;
};

// What is next at a meeting.
struct MeetingWord {
  enum class What : std::uint16_t { kLetIn, kScore, kGo };
  What what = What::kLetIn;
  std::int32_t bits = 0;  // kLetIn: what is evaluated; kScore: of the part; kGo: a Go
  std::int32_t saves = 0;
  std::int64_t begin = 0, end = 0;  // kLetIn: MeetingTicket's index and num_present; kScore: of the batches
  std::int64_t last_to_come = 0;
  static constexpr auto kFields =
      head_fields(comm::at<2>(&MeetingWord::what), comm::at<4>(&MeetingWord::bits),
                  comm::at<8>(&MeetingWord::saves), comm::at<16>(&MeetingWord::begin),
                  comm::at<24>(&MeetingWord::end), comm::at<32>(&MeetingWord::last_to_come));

  static MeetingWord let_in(const MeetingTicket& t) {
    return {What::kLetIn, t.parts, t.saves, t.index, t.num_present, t.last_to_come};
  }
  static MeetingWord score(std::int32_t bit, std::int64_t begin, std::int64_t end) {
    return {What::kScore, bit, 0, begin, end, 0};
  }
  static MeetingWord go_on(Go go) { return {What::kGo, static_cast<std::int32_t>(go), 0, 0, 0, 0}; }
  MeetingTicket ticket() const {
    MeetingTicket t;
    t.parts = bits;
    t.saves = saves;
    t.index = static_cast<std::int32_t>(begin);
    t.num_present = static_cast<std::int32_t>(end);
    t.last_to_come = last_to_come;
    return t;
  }
};
struct MeetingWordHead {
  static constexpr std::uint16_t kKind = comm::kLetterCoordinatorFirst + 11;
  std::int64_t number = 0;
  static constexpr auto kFields = head_fields(comm::at<8>(&MeetingWordHead::number));
  using Answer = MeetingWord;
};

// On the loop; the mailbox outlives it.
template <typename Head>
class ReplicaWords {
 public:
  using Word = typename Head::Answer;
  // `ranks`: of the replica, the one that speaks first.
  ReplicaWords(runtime::Runtime& rt, comm::Mailbox& mail, const std::vector<int>& ranks, int own)
      : state_(std::make_shared<State>(State{rt, mail, ranks.front(), ranks.size() - 1})),
        speaks_(own == ranks.front()) {
    if (!speaks_) return;
    typename comm::Mailbox::Handler<Head> handler;
    handler.arrived = [state = state_](int peer, const comm::Letter<Head>& letter) {
      Said& said = state->said[letter.head.number];
      said.asked.push_back({peer, letter.ticket});
      answer_all(state, letter.head.number);
    };
    mail.handle(std::move(handler));
  }
  ~ReplicaWords() {
    if (speaks_) state_->mail.template stop_handling<Head>();
  }
  ReplicaWords(const ReplicaWords&) = delete;
  ReplicaWords& operator=(const ReplicaWords&) = delete;

  // The rank that speaks: each number once.
  void tell(std::int64_t number, const Word& word) {
    if (state_->others == 0) return;
    state_->said[number].word = word;
    answer_all(state_, number);
  }
  // The others: when it is told.
  runtime::Task<Result<Word>> hear(std::int64_t number) {
    const Head head{number};
    const net::View nothing;
    const auto answer = co_await state_->mail.ask(state_->speaker, head, nothing, nothing);
    if (!answer.ok()) co_return answer.status();
    co_return answer->head;
  }

 private:
  struct Asked {
    int peer = 0;
    comm::Ticket<Word> ticket;
  };
  struct Said {
    std::optional<Word> word = {};
    std::vector<Asked> asked = {};
    std::size_t answered = 0;
  };
  struct State {
    runtime::Runtime& rt;
    comm::Mailbox& mail;
    int speaker = 0;
    std::size_t others = 0;
    std::map<std::int64_t, Said> said = {};
  };

  // Whoever is gone takes the replica along, and needs no answer.
  static runtime::Task<void> answer(std::shared_ptr<State> state, Asked asked, Word word) {
    const net::View nothing;
    (void)co_await state->mail.reply(asked.peer, asked.ticket, word, nothing);
  }
  static void answer_all(const std::shared_ptr<State>& state, std::int64_t number) {
    const auto at = state->said.find(number);
    Said& said = at->second;
    if (!said.word) return;
    const Word word = *said.word;
    const std::vector<Asked> asked = std::exchange(said.asked, {});
    said.answered += asked.size();
    if (said.answered == state->others) state->said.erase(at);
    for (const Asked& one : asked) state->rt.spawn(answer(state, one, word));
  }

  const std::shared_ptr<State> state_;
  const bool speaks_;
};

}  // namespace trireme::train
