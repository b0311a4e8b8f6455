// Plan slots that the trainer itself uses, above those of the buckets. Part of message identities.
#pragma once

#include <cstdint>

namespace trireme::engine {

inline constexpr std::uint16_t kSlotStartSize = 0xFF00;
inline constexpr std::uint16_t kSlotStart = 0xFF01;
inline constexpr std::uint16_t kSlotRestore = 0xFF02;
inline constexpr std::uint16_t kSlotEval = 0xFF03;
inline constexpr std::uint16_t kSlotValidate = 0xFF04;
inline constexpr std::uint16_t kSlotTraceSize = 0xFF05;
inline constexpr std::uint16_t kSlotTrace = 0xFF06;
inline constexpr std::uint16_t kSlotShares = 0xFF07;
inline constexpr std::uint16_t kSlotCheck = 0xFF08;
inline constexpr std::uint16_t kSlotSpeeds = 0xFF09;
inline constexpr std::uint16_t kSlotReady = 0xFF10;
inline constexpr std::uint16_t kSlotRestoreReplica = 0xFF11;
inline constexpr std::uint16_t kSlotShareWeights = 0xFF12;

inline constexpr std::uint16_t kSlotSharedReady = 0xFF13;
inline constexpr std::uint16_t kSlotDevices = 0xFF14;
inline constexpr std::uint16_t kSlotStepTimes = 0xFF15;
inline constexpr std::uint16_t kSlotChoiceSize = 0xFF16;
inline constexpr std::uint16_t kSlotChoice = 0xFF17;
inline constexpr std::uint16_t kSlotKeptBack = 0x8000;  // and one per bucket

}  // namespace trireme::engine
