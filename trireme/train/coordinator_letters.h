// What workers, servers and the coordinator on rank 0 write to each other.
#pragma once

#include "trireme/comm/letter_kinds.h"
#include "trireme/comm/mailbox.h"

namespace trireme::train {

using comm::head_fields;

// What a worker says of a unit it has done. Travels as bytes.
struct UnitReport {
  std::int64_t batch = 0;
  std::int32_t shard = 0;
  std::int32_t stop_wanted = 0;
  std::int64_t samples = 0, steps = 0;              // steps: of this worker so far
  double loss = 0, correct = 0, learning_rate = 0;  // loss: mean over the samples
  std::int64_t compute_ns = 0, exposed_ns = 0, data_ns = 0;
};

// What everybody who meets is told.
struct MeetingTicket {
  std::int64_t round = 0;
  std::int32_t index = 0, num_present = 1;  // shares of the evaluation
  std::int32_t parts = 0;                   // bits: 1 test, 2 validation
  std::int32_t saves = 0;                   // a checkpoint is made
  std::int64_t last_to_come = 0;            // the worker that the others waited for
};

inline constexpr std::int32_t kTestBit = 1, kValidationBit = 2;     // of MeetingTicket::parts
inline constexpr std::int32_t kSavesModel = 1, kSavesReplicas = 2;  // MeetingTicket::saves

enum class Go : std::uint16_t { kOn = 0, kStop = 1, kEnd = 2 };

// A unit, please.
struct TakeAnswer {
  bool has_unit = false;
  std::uint32_t shard = 0;
  std::int64_t batch = 0, round = 0;
  static constexpr auto kFields =
      head_fields(comm::flag<1>(&TakeAnswer::has_unit), comm::at<4>(&TakeAnswer::shard),
                  comm::at<8>(&TakeAnswer::batch), comm::at<16>(&TakeAnswer::round));
};
struct TakeHead {
  static constexpr std::uint16_t kKind = comm::kLetterCoordinatorFirst;
  static constexpr auto kFields = head_fields();
  using Answer = TakeAnswer;
};

// The payload is a UnitReport.
struct DoneHead {
  static constexpr std::uint16_t kKind = comm::kLetterCoordinatorFirst + 1;
  static constexpr auto kFields = head_fields();
};

// The answer's payload is a MeetingTicket.
struct ArriveHead {
  static constexpr std::uint16_t kKind = comm::kLetterCoordinatorFirst + 2;
  static constexpr auto kFields = head_fields();
  using Answer = comm::EmptyHead;
};

// The payload are two floats for each of these batches of a part.
struct ScoresHead {
  static constexpr std::uint16_t kKind = comm::kLetterCoordinatorFirst + 3;
  std::uint32_t part = 0;
  std::int64_t begin = 0, end = 0;
  static constexpr auto kFields = head_fields(comm::at<4>(&ScoresHead::part), comm::at<8>(&ScoresHead::begin),
                                              comm::at<16>(&ScoresHead::end));
};

// May I go on?
struct GoAnswer {
  Go go = Go::kOn;
  static constexpr auto kFields = head_fields(comm::at<2>(&GoAnswer::go));
};
struct GoHead {
  static constexpr std::uint16_t kKind = comm::kLetterCoordinatorFirst + 4;
  double drift = 0;
  static constexpr auto kFields = head_fields(comm::at<24>(&GoHead::drift));
  using Answer = GoAnswer;
};

// To a worker: leave this unit to another.
struct TakenHead {
  static constexpr std::uint16_t kKind = comm::kLetterCoordinatorFirst + 5;
  std::uint32_t shard = 0;
  std::int64_t batch = 0;
  static constexpr auto kFields = head_fields(comm::at<4>(&TakenHead::shard), comm::at<8>(&TakenHead::batch));
};

// The payload is JSON text of what a worker has counted.
struct FinalHead {
  static constexpr std::uint16_t kKind = comm::kLetterCoordinatorFirst + 7;
  static constexpr auto kFields = head_fields();
};

// To servers: all is done.
struct EndHead {
  static constexpr std::uint16_t kKind = comm::kLetterCoordinatorFirst + 8;
  static constexpr auto kFields = head_fields();
};

// From rank 0: bytes, from `begin` on, of a tensor that a rank keeps: `count` of them that the answer brings,
// or a payload that is written there (distant_state.h).
struct KeptStateAnswer {
  bool is_known = false;
  static constexpr auto kFields = head_fields(comm::flag<1>(&KeptStateAnswer::is_known));
};
struct KeptStateHead {
  static constexpr std::uint16_t kKind = comm::kLetterCoordinatorFirst + 9;
  std::uint32_t index = 0;
  std::int64_t whose = 0;
  std::uint64_t begin = 0, count = 0, tensor_bytes = 0;
  static constexpr auto kFields =
      head_fields(comm::at<4>(&KeptStateHead::index), comm::at<8>(&KeptStateHead::whose),
                  comm::at<16>(&KeptStateHead::begin), comm::at<24>(&KeptStateHead::count),
                  comm::at<32>(&KeptStateHead::tensor_bytes));
  using Answer = KeptStateAnswer;
};

}  // namespace trireme::train
