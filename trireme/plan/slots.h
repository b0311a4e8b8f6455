// Slots: the numbers of all messages of a job, in one place. A slot and a step name a call of a group
// (comm/group.h), so two calls that may run at the same time never share a slot.
//
// B buckets have the slots below 4 B, the turns of encoded sums the same numbers with a turn in bits 13 and
// 14, the trainer and nodes of graphs those from 0x8000 on. Some uses share numbers because no run has both;
// `users_of` says what a run has, and a test walks all rules, codecs and ways to sum.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "trireme/base/status.h"

namespace trireme::plan {

using Slot = std::uint16_t;

// Collectives and messages in train and eval graphs (graph::number_slots).
inline constexpr Slot kSlotGraph = 0xD000;
inline constexpr int kGraphSlots = 0x2000;
// Slots of the trainer, outside of steps.
inline constexpr Slot kSlotResiduals = 0x8000;   // and one per bucket
inline constexpr Slot kSlotShardState = 0xA000;  // kShardStateSlots for each move of shards' state, and back
inline constexpr Slot kSlotStartSize = 0xFF00;
inline constexpr Slot kSlotStart = 0xFF01;
inline constexpr Slot kSlotRestore = 0xFF02;
inline constexpr Slot kSlotEval = 0xFF03;
inline constexpr Slot kSlotValidate = 0xFF04;
inline constexpr Slot kSlotTraceSize = 0xFF05;
inline constexpr Slot kSlotTrace = 0xFF06;
inline constexpr Slot kSlotShares = 0xFF07;
inline constexpr Slot kSlotCheck = 0xFF08;
inline constexpr Slot kSlotSpeeds = 0xFF09;
inline constexpr Slot kSlotReady = 0xFF10;
inline constexpr Slot kSlotRestoreReplica = 0xFF11;
inline constexpr Slot kSlotShareWeights = 0xFF12;
inline constexpr Slot kSlotSharedReady = 0xFF13;
inline constexpr Slot kSlotDevices = 0xFF14;
inline constexpr Slot kSlotStepTimes = 0xFF15;
inline constexpr Slot kSlotChoiceSize = 0xFF16;
inline constexpr Slot kSlotChoice = 0xFF17;
inline constexpr Slot kSlotHash = 0xFF18;
inline constexpr Slot kSlotFinite = 0xFF19;
inline constexpr Slot kSlotSave = 0xFF1A;  // pieces of a checkpoint to those who write them
inline constexpr Slot kSlotSaveFolder = 0xFF1B;
inline constexpr Slot kSlotWritten = 0xFF1C;  // files of a checkpoint, while steps go on
// What all ranks decide on together in every step (engine/vote/vote.h).
inline constexpr Slot kSlotVote = 0xFF1D;
// Votes of steps that overlap have several; the first of them has the slot above.
inline constexpr Slot kSlotLaterVotes = 0xFF40;
inline constexpr int kMostVotes = 64;
inline constexpr Slot vote_slot(int i) { return i == 0 ? kSlotVote : static_cast<Slot>(kSlotLaterVotes + i); }

inline constexpr int kShardMoves = 6;           // three moments, there and back
inline constexpr int kShardStateSlots = 0x800;  // tensors per move
inline constexpr int kTurns = 4;                // of an encoded sum
inline constexpr std::size_t kMostBuckets = 0x2000 / 4;
// kInvalid beyond kMostBuckets: turns would be taken for other buckets.
Status check_num_buckets(std::size_t num_buckets);

// The slots of the buckets.
struct Slots {
  std::size_t num_buckets = 0;

  // Lock step: the sum of a bucket.
  Slot sum(std::size_t b) const { return at(0, b); }
  // What the sum of a bucket needs beside: a bucket has one kind of sum, so one of these at most.
  Slot sizes(std::size_t b) const { return at(1, b); }       // lengths of encodings
  Slot second_sum(std::size_t b) const { return at(1, b); }  // of thin matrices
  Slot summed(std::size_t b) const { return at(1, b); }      // everybody's GPU has read what it needs
  // Shared weights, whose sums need nothing beside.
  Slot updated(std::size_t b) const { return at(1, b); }  // everybody has updated its part of a bucket
  Slot lengths(std::size_t b) const { return at(3, b); }  // of tensors that tiles have pieces of
  Slot rest() const { return at(2, 0); }  // what is not updated in parts, or all of it at once
  // Parts of weights that replicas divide: after an update or on the way forward, and on the way back.
  Slot gathered(std::size_t b) const { return at(1, b); }
  Slot gathered_again(std::size_t b) const { return at(3, b); }
  // Micro-batches whose gradients replicas divide: everybody has read those of a bucket.
  Slot read(std::size_t b) const { return at(2, b); }
  // Rules that meet after a period.
  Slot mean(std::size_t b) const { return at(0, b); }
  Slot settled(std::size_t b) const { return at(1, b); }
  Slot change(std::size_t b) const { return at(2, b); }  // encoded
  Slot change_sizes(std::size_t b) const { return at(3, b); }
  // What an encoder kept back goes into the next sum, when the codec changes.
  static Slot residuals(std::size_t b) { return static_cast<Slot>(kSlotResiduals + b); }

  // Turn `turn` of an encoded sum is a call of its own.
  static Slot turn(Slot slot, int turn) { return static_cast<Slot>(slot | turn << 13); }
  static std::array<Slot, kTurns> turns(Slot slot);  // all of them, as comm::CodedSlots has them
  // Tensor `index` of the state that moves with shards; `move` counts moments, there and back.
  static Slot shard_state(int move, std::size_t index) {
    return static_cast<Slot>(kSlotShardState + move * kShardStateSlots + static_cast<int>(index));
  }

 private:
  Slot at(std::size_t row, std::size_t b) const { return static_cast<Slot>(row * num_buckets + b); }
};

// How a bucket is summed, or what a rule sends instead.
enum class SlotKind : std::uint8_t {
  kDense,    // lock step: one call per bucket (a sum, or factors)
  kCoded,    // lock step: encodings and their lengths
  kLowRank,  // lock step: two sums
  kDevice,   // lock step: on GPUs
  kShared,   // lock step: dense sums into shared weights
  kDivided,  // lock step: parts of dense sums, and of weights
  kDealt,    // lock step: the same, of every micro-batch of a stage
  kMeans,    // after a period: means
  kChanges,  // after a period: means, and encoded changes
  kLetters,  // servers and peers: letters only, which have no slots
};
struct SlotUser {
  std::string_view what;
  Slot slot = 0;
};
// Everything that a run with buckets of these kinds may have under way, slot by slot.
std::vector<SlotUser> users_of(std::span<const SlotKind> kinds);

}  // namespace trireme::plan
