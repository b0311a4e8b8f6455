// What clients and servers write to each other. All letters go from a worker to a server.
//
//   what        payload                                        answer
//   Init        f32 values
//   Push        f32 values, coded message or factors           with wants_before or wants_after: as of Pull
//   Pull                                                       ServerAnswer, f32 values or coded message
//   PushRows    i64 rows of the slice, then f32 values
//   PullRows    i64 rows                                       as of Pull, those rows
//   Tick, Finish, Rejoin                                       of Finish, when all is applied; of Rejoin
#pragma once

#include "trireme/comm/letter_kinds.h"
#include "trireme/comm/mailbox.h"

namespace trireme::server {

using comm::at;
using comm::flag;
using comm::head_fields;

struct ServerAnswer {
  bool has_failed = false;  // the server could not make its updates; its log says why
  bool is_coded = false;    // the payload is a coded message of the difference to what the worker has
  std::int64_t oldest_clock = 0, updates = 0;
  static constexpr auto kFields =
      head_fields(flag<0x1>(&ServerAnswer::has_failed), flag<0x400>(&ServerAnswer::is_coded),
                  at<8>(&ServerAnswer::oldest_clock), at<16>(&ServerAnswer::updates));
};

// A kind for each server, so that several may be on one rank; their numbers must differ modulo 15.
inline constexpr int kNumKinds = comm::kLetterRuleFirst - comm::kLetterServerFirst;
inline constexpr int receiver_of(int server) { return server % kNumKinds; }
struct ServerHead {
  static constexpr std::uint16_t kFirstKind = comm::kLetterServerFirst;
};

// The first values of a slice.
struct InitHead : ServerHead {
  static constexpr std::uint8_t kSort = 1;
  std::uint32_t slice = 0;
  static constexpr auto kFields = head_fields(at<4>(&InitHead::slice));
};

struct PushHead : ServerHead {
  static constexpr std::uint8_t kSort = 2;
  // Values before or after this update are to come back.
  bool wants_before = false, wants_after = false;
  bool is_coded = false;    // the payload is a coded message (vector_coder.h)
  bool is_factors = false;  // the payload are the factors of a product (factor_link.h)
  std::uint32_t slice = 0;
  std::int64_t clock = 0;
  std::int64_t based_on = 0;  // updates of the slice in what the values were computed from; -1: not known
  double learning_rate = 0, scale = 0;
  static constexpr auto kFields =
      head_fields(flag<0x100>(&PushHead::wants_before), flag<0x200>(&PushHead::wants_after),
                  flag<0x400>(&PushHead::is_coded), flag<0x1000>(&PushHead::is_factors),
                  at<4>(&PushHead::slice), at<8>(&PushHead::clock), at<16>(&PushHead::based_on),
                  at<24>(&PushHead::learning_rate), at<32>(&PushHead::scale));
  using Answer = ServerAnswer;
};

struct PullHead : ServerHead {
  static constexpr std::uint8_t kSort = 3;
  // The worker has the values of its last pull, and a coded message of the difference, made in this exchange,
  // will do.
  bool takes_coded = false;
  bool keeps = false;  // the server shall know from now on that this worker has what it is sent
  std::uint32_t slice = 0;
  std::int64_t clock = 0;  // about to be computed
  std::int64_t exchange = 0;
  static constexpr auto kFields =
      head_fields(flag<0x400>(&PullHead::takes_coded), flag<0x800>(&PullHead::keeps), at<4>(&PullHead::slice),
                  at<8>(&PullHead::clock), at<16>(&PullHead::exchange));
  using Answer = ServerAnswer;
};

struct PushRowsHead : ServerHead {
  static constexpr std::uint8_t kSort = 4;
  std::uint32_t slice = 0;
  std::int64_t clock = 0, based_on = 0;
  double learning_rate = 0, scale = 0;
  static constexpr auto kFields =
      head_fields(at<4>(&PushRowsHead::slice), at<8>(&PushRowsHead::clock), at<16>(&PushRowsHead::based_on),
                  at<24>(&PushRowsHead::learning_rate), at<32>(&PushRowsHead::scale));
};

struct PullRowsHead : ServerHead {
  static constexpr std::uint8_t kSort = 5;
  std::uint32_t slice = 0;
  std::int64_t clock = 0;
  static constexpr auto kFields = head_fields(at<4>(&PullRowsHead::slice), at<8>(&PullRowsHead::clock));
  using Answer = ServerAnswer;
};

// All slices of the clock were pushed.
struct TickHead : ServerHead {
  static constexpr std::uint8_t kSort = 6;
  std::int64_t clock = 0;
  static constexpr auto kFields = head_fields(at<8>(&TickHead::clock));
};

// The worker pushes no more.
struct FinishHead : ServerHead {
  static constexpr std::uint8_t kSort = 7;
  static constexpr auto kFields = head_fields();
  using Answer = ServerAnswer;
};

// It does again, from this clock on.
struct RejoinHead : ServerHead {
  static constexpr std::uint8_t kSort = 8;
  std::int64_t clock = 0;
  static constexpr auto kFields = head_fields(at<8>(&RejoinHead::clock));
  using Answer = ServerAnswer;
};

}  // namespace trireme::server
