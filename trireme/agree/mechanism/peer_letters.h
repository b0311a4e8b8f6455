// Letters of rules without a server, and what such rules share: answers in the background, vectors that are
// used again.
//
// Every wait for another worker rests on an ask(), so that a verdict or a loss ends it. What is under way
// belongs to Errands of the rule, so that nothing of it runs when the rule is gone.
#pragma once

#include <vector>

#include "trireme/agree/agree.h"
#include "trireme/agree/mechanism/errands.h"
#include "trireme/comm/letter_kinds.h"

namespace trireme::agree {

enum PeerLetter : std::uint16_t {
  kLetterGather = comm::kLetterRuleFirst,  // star: worker 0 asks for a contribution
  kLetterResult,                           // star: worker 0 gives the result
  kLetterEnd,                              // star: the others ask for the end of the meeting
  kLetterParcel,                           // gossip: a model
  kLetterUpdate,                           // updates: what a worker changed
  kLetterClock,                            // updates: tell me when you are so far
  kLetterMeet,                             // updates: tell me when you are at the meeting
};

// Of kLetterUpdate: the vector is encoded.
inline constexpr std::uint16_t kUpdateCoded = 1;

inline net::View view_of(const Tensor& vector) { return {vector.raw(), vector.type().num_bytes()}; }

// Answers and keeps `payload` until its memory is free (null: no payload). Failures are dropped: a peer that
// is gone needs no answer, and of a verdict the worker's own operations tell.
runtime::Task<Status> answer_later(comm::Mailbox* mail, int peer, comm::Letter asked, comm::Letter answer,
                                   Tensor payload);

// A loss is no failure for rules that outlive it.
inline Status unless_lost(Status status) { return status.code() == Code::kPeerLost ? Status() : status; }

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
