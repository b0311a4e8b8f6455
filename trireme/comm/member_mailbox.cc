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
    for (std::size_t m = 0; m < members_.size(); ++m) {
      TR_CHECK(!members_[m].empty(), "member {} has no rank", m);
      for (const int rank : members_[m])
        TR_CHECK(member_of_.emplace(rank, static_cast<int>(m)).second, "rank {} is in two members", rank);
    }
  }

  bool is_alive(int peer) const override {
    if (!is_member(peer)) return false;
    const std::vector<int>& ranks = members_[static_cast<std::size_t>(peer)];
    return std::all_of(ranks.begin(), ranks.end(), [&](int rank) { return below_.is_alive(rank); });
  }
  void on_lost(std::function<void(int, const Status&)> listener) override {
    const auto told = std::make_shared<std::set<int>>();
    below_.on_lost([told, member_of = member_of_, to = std::move(listener)](int rank, const Status& why) {
      const auto member = member_of.find(rank);
      if (member != member_of.end() && told->insert(member->second).second) to(member->second, why);
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
  std::map<int, int> member_of_;  // by rank
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
