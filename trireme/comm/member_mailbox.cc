#include "trireme/comm/member_mailbox.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

namespace trireme::comm {
namespace {

class MemberMailbox final : public Mailbox {
 public:
  MemberMailbox(Mailbox& below, std::vector<std::vector<int>> members)
      : below_(below), members_(std::move(members)) {
    std::set<int> seen;
    for (std::size_t m = 0; m < members_.size(); ++m) {
      TR_CHECK(!members_[m].empty(), "member {} has no rank", m);
      for (const int rank : members_[m])
        TR_CHECK(seen.insert(rank).second, "rank {} is in two members", rank);
    }
  }

  bool is_alive(int peer) const override { return is_member(peer) && below_.is_alive(speaker_of(peer)); }
  void on_lost(std::function<void(int, const Status&)> listener) override {
    below_.on_lost([speaks = speakers(), to = std::move(listener)](int rank, const Status& why) {
      if (const auto member = speaks.find(rank); member != speaks.end()) to(member->second, why);
    });
  }

  void set_handler(std::uint16_t kind, EnvelopeHandler handler) override {
    EnvelopeHandler translated;
    if (handler.place)
      translated.place = [to = std::move(handler.place), speaks = speakers()](
                             int rank, const Envelope& envelope) -> Result<net::View> {
        const auto member = speaks.find(rank);
        if (member != speaks.end()) return to(member->second, envelope);
        return error(Code::kInvalid, "[comm] a letter of kind {} of rank {}, which speaks for nobody here",
                     envelope.kind, rank);
      };
    if (handler.arrived)
      translated.arrived = [to = std::move(handler.arrived), speaks = speakers()](int rank,
                                                                                  const Envelope& envelope) {
        if (const auto member = speaks.find(rank); member != speaks.end()) to(member->second, envelope);
      };
    below_.set_handler(kind, std::move(translated));
  }
  runtime::Task<Status> send_envelope(int peer, Envelope envelope, net::View payload) override {
    return below_.send_envelope(speaker_of(peer), envelope, payload);
  }
  runtime::Task<Result<Envelope>> ask_envelope(int peer, Envelope envelope, net::View payload,
                                               net::View into) override {
    return below_.ask_envelope(speaker_of(peer), envelope, payload, into);
  }
  runtime::Task<Status> reply_envelope(int peer, Envelope answer, net::View payload) override {
    return below_.reply_envelope(speaker_of(peer), answer, payload);
  }

 private:
  bool is_member(int peer) const { return peer >= 0 && peer < static_cast<int>(members_.size()); }
  // The mailbox below refuses -1.
  int speaker_of(int peer) const {
    return is_member(peer) ? members_[static_cast<std::size_t>(peer)].front() : -1;
  }
  std::map<int, int> speakers() const {
    std::map<int, int> out;
    for (std::size_t m = 0; m < members_.size(); ++m) out[members_[m].front()] = static_cast<int>(m);
    return out;
  }

  Mailbox& below_;
  const std::vector<std::vector<int>> members_;
};

}  // namespace

std::unique_ptr<Mailbox> make_member_mailbox(Mailbox& mail, std::vector<std::vector<int>> members) {
  return std::make_unique<MemberMailbox>(mail, std::move(members));
}

bool are_plain_ranks(const std::vector<std::vector<int>>& members) {
  for (std::size_t m = 0; m < members.size(); ++m)
    if (members[m] != std::vector<int>{static_cast<int>(m)}) return false;
  return true;
}

}  // namespace trireme::comm
