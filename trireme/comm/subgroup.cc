// Some ranks of a group as a group.
#include <algorithm>
#include <utility>

#include "trireme/comm/calls.h"
#include "trireme/comm/member_mailbox.h"
#include "trireme/comm/transport_mailbox.h"

namespace trireme::comm {
namespace {

class SubGroup final : public Calls {
 public:
  SubGroup(Calls& whole, std::shared_ptr<const Members> members)
      : whole_(whole), members_(std::move(members)) {}
  int rank() const override { return members_->rank; }
  int world() const override { return static_cast<int>(members_->ranks.size()); }
  Result<std::unique_ptr<Group>> subgroup(std::vector<int> ranks, std::uint16_t id) override {
    for (int& r : ranks) {
      if (r < 0 || r >= world())
        return error(Code::kInvalid, "[comm] a sub-group has rank {}: expected 0..{}", r, world() - 1);
      r = members_->ranks[static_cast<std::size_t>(r)];
    }
    return whole_.subgroup(std::move(ranks), id);
  }
  bool same_host(int rank) const override {
    return whole_.same_host(members_->ranks[static_cast<std::size_t>(rank)]);
  }
  Result<Tensor> allocate(const TensorType& type) override { return whole_.allocate(type); }
  runtime::Task<Result<Tensor>> share(Call call, TensorType type) override {
    TR_CHECK(call.root >= 0 && call.root < world(), "root {} of {}", call.root, world());
    const int root = members_->ranks[static_cast<std::size_t>(call.root)];
    return share_among(*this, root, std::move(call), std::move(type));
  }
  runtime::Task<Result<Tensor>> share_among(Group& members, int root, Call call, TensorType type) override {
    return whole_.share_among(members, root, std::move(call), std::move(type));
  }
  // Peers are ranks of the sub-group. A kind of letters has one handler on a rank, whatever groups it is in.
  Mailbox& mailbox() override {
    if (mailbox_ == nullptr) {
      std::vector<std::vector<int>> members;
      for (const int rank : members_->ranks) members.push_back({rank});
      mailbox_ = make_member_mailbox(whole_.mailbox(), std::move(members));
    }
    return *mailbox_;
  }
  Status set_expendable(std::vector<int> /*ranks*/) override {
    return error(Code::kInvalid, "[comm] a sub-group cannot say who is expendable; ask the whole group");
  }
  runtime::Task<Status> leave() override { return run(leave_request()); }
  void fail(std::string operation, std::string reason) override {
    whole_.fail(std::move(operation), std::move(reason));
  }
  const Status& verdict() const override { return whole_.verdict(); }
  GroupStats stats() const override {
    GroupStats stats = whole_.stats();
    stats.own_bytes = members_->bytes_sent;
    return stats;
  }

  runtime::Task<Status> run(Request r) override {
    r.members = members_;
    return whole_.run(std::move(r));
  }

 private:
  Calls& whole_;
  const std::shared_ptr<const Members> members_;
  std::unique_ptr<Mailbox> mailbox_;  // made when it is asked for
};

}  // namespace

Result<std::shared_ptr<const Members>> make_members(std::vector<int> ranks, std::uint16_t id, int rank,
                                                    int world, std::uint16_t whole_id) {
  auto members = std::make_shared<Members>();
  members->rank = -1;
  members->id = id;
  for (auto it = ranks.begin(); it != ranks.end(); ++it) {
    if (*it < 0 || *it >= world || std::find(ranks.begin(), it, *it) != it)
      return error(Code::kInvalid, "[comm] a sub-group has rank {}: expected each of 0..{} at most once", *it,
                   world - 1);
    if (*it == rank) members->rank = static_cast<int>(it - ranks.begin());
  }
  if (members->rank < 0 || id == whole_id || id >= kMailGroup)
    return error(Code::kInvalid,
                 "[comm] sub-group {} cannot be made: expected rank {} among its members and another id than "
                 "{}, below {}",
                 id, rank, whole_id, kMailGroup);
  members->ranks = std::move(ranks);
  return std::shared_ptr<const Members>(std::move(members));
}

std::unique_ptr<Group> make_subgroup(Calls& whole, std::shared_ptr<const Members> members) {
  return std::make_unique<SubGroup>(whole, std::move(members));
}

}  // namespace trireme::comm
