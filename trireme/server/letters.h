// What clients and servers write to each other: the fields of comm::Letter by kind. All letters go from a
// worker to a server; answers carry what the row says.
//
//   kind      key     clock          number      value  value2  payload           answer
//   init      slice                                             f32 values
//   push      slice   the push's     based on    rate   scale   f32 values        with kBefore, kAfter: as
//   pull pull      slice   about to be                                                 number: updates,
//   clock: oldest
//                     computed                                                    clock; f32 values
//   push_rows slice   the push's     based on    rate   scale   i64 rows of the slice, then f32 values
//   pull_rows slice   as pull                                   i64 rows          as pull, those rows
//   tick              pushed whole
//   finish                                                                        empty, when all is applied
//   rejoin            next to push                                                empty
#pragma once

#include "trireme/comm/letter_kinds.h"
#include "trireme/comm/mailbox.h"

namespace trireme::server {

enum LetterOf : std::uint16_t {
  kInit = comm::kLetterServerFirst,
  kPush,
  kPull,
  kPushRows,
  kPullRows,
  kTick,
  kFinish,
  kRejoin,
};
inline constexpr std::uint16_t kAllLetters[] = {kInit,     kPush, kPull,   kPushRows,
                                                kPullRows, kTick, kFinish, kRejoin};

// Of push: values before or after this update are to come back.
inline constexpr std::uint16_t kFlagBefore = 1, kFlagAfter = 2;
// Of answers: the server could not make its updates; its log says why.
inline constexpr std::uint16_t kFlagFailed = 1;

}  // namespace trireme::server
