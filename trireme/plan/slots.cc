#include "trireme/plan/slots.h"

#include <algorithm>

namespace trireme::plan {
namespace {

void add_trainer(const Slots& slots, std::vector<SlotUser>& users) {
  constexpr Slot kOwn[] = {kSlotStartSize,    kSlotStart,       kSlotRestore, kSlotEval,
                           kSlotValidate,     kSlotTraceSize,   kSlotTrace,   kSlotShares,
                           kSlotCheck,        kSlotSpeeds,      kSlotReady,   kSlotRestoreReplica,
                           kSlotShareWeights, kSlotSharedReady, kSlotDevices, kSlotStepTimes,
                           kSlotChoiceSize,   kSlotChoice,      kSlotHash,    kSlotFinite,
                           kSlotSave,         kSlotSaveFolder,  kSlotWritten, kSlotVote};
  for (const Slot slot : kOwn) users.push_back({"the trainer", slot});
  for (int i = 1; i < kMostVotes; ++i) users.push_back({"a later vote", vote_slot(i)});
  for (std::size_t b = 0; b < slots.num_buckets; ++b) users.push_back({"kept back", slots.residuals(b)});
  for (int move = 0; move < kShardMoves; ++move)
    for (std::size_t i = 0; i < kShardStateSlots; ++i)
      users.push_back({"state of shards", Slots::shard_state(move, i)});
  for (int i = 0; i < kGraphSlots; ++i) users.push_back({"a node", static_cast<Slot>(kSlotGraph + i)});
}

void add_turns(std::string_view what, Slot slot, std::vector<SlotUser>& users) {
  for (const Slot turn : Slots::turns(slot)) users.push_back({what, turn});
}

void add_bucket(const Slots& slots, std::size_t b, SlotKind kind, std::vector<SlotUser>& users) {
  switch (kind) {
    case SlotKind::kDense:
      users.push_back({"sum", slots.sum(b)});
      users.push_back({"lengths of tensors", slots.lengths(b)});
      break;
    case SlotKind::kCoded:
      add_turns("encodings", slots.sum(b), users);
      add_turns("lengths of encodings", slots.sizes(b), users);
      users.push_back({"lengths of tensors", slots.lengths(b)});
      break;
    case SlotKind::kLowRank:
      users.push_back({"first sum", slots.sum(b)});
      users.push_back({"second sum", slots.second_sum(b)});
      users.push_back({"lengths of tensors", slots.lengths(b)});
      break;
    case SlotKind::kDevice:
      users.push_back({"sum on GPUs", slots.sum(b)});
      users.push_back({"end of a sum on GPUs", slots.summed(b)});
      break;
    case SlotKind::kShared:
      users.push_back({"sum", slots.sum(b)});
      users.push_back({"update", slots.updated(b)});
      break;
    case SlotKind::kDealt:
      users.push_back({"gradients are read", slots.read(b)});
      [[fallthrough]];
    case SlotKind::kDivided:
      users.push_back({"sum", slots.sum(b)});
      users.push_back({"weights", slots.gathered(b)});
      users.push_back({"weights on the way back", slots.gathered_again(b)});
      break;
    case SlotKind::kChanges:
      add_turns("changes", slots.change(b), users);
      add_turns("lengths of changes", slots.change_sizes(b), users);
      [[fallthrough]];
    case SlotKind::kMeans:
      users.push_back({"mean", slots.mean(b)});
      users.push_back({"agreed model", slots.settled(b)});
      break;
    case SlotKind::kLetters:
      break;
  }
}

}  // namespace

std::array<Slot, kTurns> Slots::turns(Slot slot) {
  std::array<Slot, kTurns> all{};
  for (int t = 0; t < kTurns; ++t) all[static_cast<std::size_t>(t)] = turn(slot, t);
  return all;
}

Status check_num_buckets(std::size_t num_buckets) {
  if (num_buckets <= kMostBuckets) return {};
  return error(Code::kInvalid,
               "[plan] {} buckets are more than the {} that messages have numbers for; use a larger "
               "parallel.bucket_bytes",
               num_buckets, kMostBuckets);
}

std::vector<SlotUser> users_of(std::span<const SlotKind> kinds) {
  const Slots slots{kinds.size()};
  std::vector<SlotUser> users;
  for (std::size_t b = 0; b < kinds.size(); ++b) add_bucket(slots, b, kinds[b], users);
  const auto has_rest = [](SlotKind k) { return k == SlotKind::kShared || k == SlotKind::kDivided; };
  if (std::any_of(kinds.begin(), kinds.end(), has_rest)) users.push_back({"the rest", slots.rest()});
  add_trainer(slots, users);
  return users;
}

}  // namespace trireme::plan
