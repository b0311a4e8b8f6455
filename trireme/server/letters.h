// What clients and servers write to each other: the fields of comm::Letter. All letters go from a
// worker to a server; answers carry what the row says.
//
//   what      key     clock          number      value  value2  payload           answer
//   init      slice                                             f32 values
//   push      slice   the push's     based on    rate   scale   f32 values        with kBefore, kAfter:
//                                                                                 as pull
//   pull      slice   about to be                                                 number: updates, clock:
//                     computed                                                    oldest; f32 values
//   push_rows slice   the push's     based on    rate   scale   i64 rows of the slice, then f32 values
//   pull_rows slice   as pull                                   i64 rows          as pull, those rows
//   tick              pushed whole
//   finish                                                                        empty, when all is applied
//   rejoin            next to push                                                empty
#pragma once

#include "trireme/comm/letter_kinds.h"
#include "trireme/comm/mailbox.h"

namespace trireme::server {

// In the low bits of the flags.
enum LetterOf : std::uint16_t {
  kInit = 1,
  kPush,
  kPull,
  kPushRows,
  kPullRows,
  kTick,
  kFinish,
  kRejoin,
};
inline constexpr std::uint16_t kLetterOfMask = 0xFF;
inline LetterOf what_is(const comm::Letter& letter) {
  return static_cast<LetterOf>(letter.flags & kLetterOfMask);
}
// Of push: values before or after this update are to come back.
inline constexpr std::uint16_t kFlagBefore = 0x100, kFlagAfter = 0x200;
// Of push: the values are a coded message (vector_coder.h). Of pull: the worker has the values of its last
// pull, and a coded message of the difference made in exchange `number` will do. Of its answer: it is one.
inline constexpr std::uint16_t kFlagCoded = 0x400;
// Of push: the values are the factors of a product (factor_link.h).
inline constexpr std::uint16_t kFlagFactors = 0x1000;
// Of pull: the server shall know from now on that this worker has what it is sent.
inline constexpr std::uint16_t kFlagKeep = 0x800;

// A kind for each server, so that several may be on one rank; their numbers must differ modulo 15.
inline constexpr int kNumKinds = comm::kLetterRuleFirst - comm::kLetterServerFirst;
inline std::uint16_t kind_of_server(int server) {
  return static_cast<std::uint16_t>(comm::kLetterServerFirst + server % kNumKinds);
}

// Of answers: the server could not make its updates; its log says why.
inline constexpr std::uint16_t kFlagFailed = 1;

}  // namespace trireme::server
