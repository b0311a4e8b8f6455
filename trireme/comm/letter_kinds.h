// Who takes which letters: one number per handler, so that several users share a mailbox.
#pragma once

#include <cstdint>

namespace trireme::comm {

enum LetterKind : std::uint16_t {
  kLetterReply = 0,  // the mailbox's own
  // 1..15: parameter servers (server/)
  kLetterServerFirst = 1,
  // 16..31: agreement rules (agree/)
  kLetterRuleFirst = 16,
  // 32..47: the trainer's coordinator (train/)
  kLetterCoordinatorFirst = 32,
  // 48..: tests and programs of users
  kLetterUserFirst = 48,
};

}  // namespace trireme::comm
