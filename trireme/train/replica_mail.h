// ReplicaMail: mailboxes in which peers are replicas. Where each replica is the rank of its number, they are
// the group's own.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "trireme/comm/member_mailbox.h"

namespace trireme::train {

class ReplicaMail {
 public:
  // By replica, its ranks: the one that speaks for it first (job::Roles::replicas), and the one first that a
  // rank deals with (job::Roles::replicas_seen_by).
  using Replicas = std::vector<std::vector<int>>;
  ReplicaMail(comm::Mailbox& mail, Replicas by_speaker, Replicas by_place)
      : mail_(mail), speakers_(make(mail, std::move(by_speaker))), peers_(make(mail, std::move(by_place))) {}

  // Among those who speak for replicas: leases and meetings, clocks of servers.
  comm::Mailbox& operator*() const { return speakers_ != nullptr ? *speakers_ : mail_; }
  comm::Mailbox* operator->() const { return &**this; }
  // Among the ranks that have the same place in their replicas: what a rule sends.
  comm::Mailbox& peers() const { return peers_ != nullptr ? *peers_ : mail_; }

 private:
  static std::unique_ptr<comm::Mailbox> make(comm::Mailbox& mail, Replicas replicas) {
    if (comm::are_plain_ranks(replicas)) return nullptr;
    return comm::make_member_mailbox(mail, std::move(replicas));
  }

  comm::Mailbox& mail_;
  const std::unique_ptr<comm::Mailbox> speakers_, peers_;
};

}  // namespace trireme::train
