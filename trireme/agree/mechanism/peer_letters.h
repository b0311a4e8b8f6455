// Letters of rules without a server, and what such rules share: answers in the background, vectors that are
// used again.
//
// Every wait for another worker rests on an ask(), so that a verdict or a loss ends it. What is under way
// belongs to BackgroundTasks of the rule, so that nothing of it runs when the rule is gone.
#pragma once

#include <vector>

#include "trireme/agree/agree.h"
#include "trireme/agree/mechanism/background_tasks.h"
#include "trireme/comm/letter_kinds.h"

namespace trireme::agree {

using comm::at;
using comm::flag;
using comm::head_fields;

// Star: worker 0 asks for a contribution to this meeting; without one the answer only says that the worker
// is there.
struct Contribution {
  double weight = 0;
  static constexpr auto kFields = head_fields(at<24>(&Contribution::weight));
};
struct GatherHead {
  static constexpr std::uint16_t kKind = comm::kLetterRuleFirst;
  std::uint32_t bucket = 0;
  std::int64_t meeting = 0;
  static constexpr auto kFields = head_fields(at<4>(&GatherHead::bucket), at<8>(&GatherHead::meeting));
  using Answer = Contribution;
};

// Star: worker 0 gives the result.
struct ResultHead {
  static constexpr std::uint16_t kKind = comm::kLetterRuleFirst + 1;
  std::uint32_t bucket = 0;
  std::int64_t meeting = 0;
  static constexpr auto kFields = head_fields(at<4>(&ResultHead::bucket), at<8>(&ResultHead::meeting));
  using Answer = comm::EmptyHead;
};

// Star: the others ask for the end of the meeting.
struct MeetingEndHead {
  static constexpr std::uint16_t kKind = comm::kLetterRuleFirst + 2;
  std::int64_t meeting = 0;
  static constexpr auto kFields = head_fields(at<8>(&MeetingEndHead::meeting));
  using Answer = comm::EmptyHead;
};

// Gossip: one bucket of a model.
struct ParcelAnswer {
  bool is_refused = false, for_good = false;
  static constexpr auto kFields =
      head_fields(flag<1>(&ParcelAnswer::is_refused), flag<2>(&ParcelAnswer::for_good));
};
struct ParcelHead {
  static constexpr std::uint16_t kKind = comm::kLetterRuleFirst + 3;
  std::uint32_t bucket = 0;
  std::int64_t clock = 0;  // of the sender
  double weight = 0;
  static constexpr auto kFields =
      head_fields(at<4>(&ParcelHead::bucket), at<8>(&ParcelHead::clock), at<24>(&ParcelHead::weight));
  using Answer = ParcelAnswer;
};

// Updates: one bucket of what a worker changed. The answer to the last bucket says that all were taken.
struct UpdateHead {
  static constexpr std::uint16_t kKind = comm::kLetterRuleFirst + 4;
  bool is_coded = false;
  std::uint32_t bucket = 0;
  std::int64_t clock = 0;  // of the sender
  std::int64_t round = 0;  // meetings that it had
  static constexpr auto kFields = head_fields(flag<1>(&UpdateHead::is_coded), at<4>(&UpdateHead::bucket),
                                              at<8>(&UpdateHead::clock), at<16>(&UpdateHead::round));
  using Answer = comm::EmptyHead;
};

// Updates: where a worker is.
struct Whereabouts {
  bool has_finished = false, is_at_meeting = false;
  std::int64_t num_sent = 0;  // updates
  static constexpr auto kFields =
      head_fields(flag<1>(&Whereabouts::has_finished), flag<2>(&Whereabouts::is_at_meeting),
                  at<16>(&Whereabouts::num_sent));
};
// Tell me when you are so far.
struct ClockHead {
  static constexpr std::uint16_t kKind = comm::kLetterRuleFirst + 5;
  std::int64_t clock = 0, round = 0;
  static constexpr auto kFields = head_fields(at<8>(&ClockHead::clock), at<16>(&ClockHead::round));
  using Answer = Whereabouts;
};
// Tell me when you are at the meeting.
struct MeetHead {
  static constexpr std::uint16_t kKind = comm::kLetterRuleFirst + 6;
  std::int64_t round = 0;
  static constexpr auto kFields = head_fields(at<16>(&MeetHead::round));
  using Answer = Whereabouts;
};

inline net::View view_of(const Tensor& vector) { return {vector.raw(), vector.type().num_bytes()}; }

// Answers and keeps `payload` until its memory is free (null: no payload). Failures are dropped: a peer that
// is gone needs no answer, and of a verdict the worker's own operations tell.
template <comm::AnyHead Answer>
runtime::Task<Status> answer_later(comm::Mailbox* mail, int peer, comm::Ticket<Answer> asked, Answer answer,
                                   Tensor payload) {
  net::View view;
  if (!payload.is_null()) view = view_of(payload);
  const Status dropped = co_await mail->reply(peer, asked, answer, view);
  static_cast<void>(dropped);
  co_return Status();
}

// A loss is no failure for rules that outlive it.
inline Status unless_lost(const Status& status) {
  return status.code() == Code::kPeerLost ? Status() : status;
}

// Vectors by bucket, made when none is free.
class VectorPool {
 public:
  VectorPool(runtime::Runtime& rt, const std::vector<Tensor>& like)
      : rt_(rt), like_(like), free_(like.size()) {}
  Result<Tensor> take(std::size_t bucket);
  Result<std::vector<Tensor>> take_all();
  void give(std::size_t bucket, Tensor vector) { free_[bucket].push_back(std::move(vector)); }
  void give_all(std::vector<Tensor> vectors);
  // Others may still write into vectors of this pool: none of them goes before the Runtime does.
  void abandon();

 private:
  runtime::Runtime& rt_;
  std::vector<Tensor> like_, made_;
  std::vector<std::vector<Tensor>> free_;
};

}  // namespace trireme::agree
