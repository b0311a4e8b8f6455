// What the ranks of a Group share, who leaves, who may be lost; transport_group_runs.cc has the calls.
#include "trireme/comm/transport_group.h"

#include <algorithm>
#include <utility>

#include "trireme/tensor/host_memory.h"
#include "trireme/tensor/host_zeros.h"

namespace trireme::comm {

Result<Tensor> TransportGroup::allocate(const TensorType& type) {
  const auto bytes = static_cast<std::size_t>(type.shape.num_elems()) * dtype_size(type.dtype);
  auto memory = bytes == 0 || !direct_ ? nullptr : count_along(transport_->allocate_exchange(bytes), bytes);
  if (!memory) return allocate_zeros(rt_.is_phantom() ? phantom_device() : cpu_device(), type);
  std::byte* at = memory.get();
  return Tensor(Buffer::wrap(cpu_device(), at, bytes, std::move(memory)), type);
}

runtime::Task<Result<Tensor>> TransportGroup::share_among(Group& members, int root, Call call,
                                                          TensorType type) {
  net::Window* window = transport_->exchange();
  const bool one_process = transport_->name() == "inproc";
  if (rt_.is_phantom()) co_return Tensor::allocate(phantom_device(), type);
  if (window == nullptr && !one_process && members.world() > 1)
    co_return error(Code::kUnavailable, "[comm] ranks share no memory over '{}'; use shm or inproc",
                    transport_->name());
  Tensor mine;
  TR_CO_ASSIGN_OR_RETURN(const Tensor where, Tensor::allocate(cpu_device(), {DType::kI64, {1}}));
  std::int64_t& word = *where.data<std::int64_t>();
  word = -1;
  if (rank() == root) {
    TR_CO_ASSIGN_OR_RETURN(mine, allocate(type));
    const auto at = reinterpret_cast<std::intptr_t>(mine.raw());
    const auto base = window == nullptr ? 0 : reinterpret_cast<std::intptr_t>(window->peer(root));
    const bool inside =
        window == nullptr || (at >= base && at - base < static_cast<std::intptr_t>(window->bytes()));
    if (inside) word = at - base;
  }
  TR_CO_RETURN_IF_ERROR(co_await members.broadcast(std::move(call), where));
  if (word < 0)
    co_return error(Code::kExhausted, "[comm] {} bytes do not fit into what the ranks share",
                    type.num_bytes());
  if (rank() == root) co_return mine;
  // Ranks of one process share addresses, others offsets.
  std::byte* at = window != nullptr
                      ? window->peer(root) + word
                      : reinterpret_cast<std::byte*>(word);  // NOLINT(performance-no-int-to-ptr)
  co_return Tensor(Buffer::wrap(cpu_device(), at, type.num_bytes(), nullptr), type);
}

Mailbox& TransportGroup::mailbox() {
  if (mailbox_) return *mailbox_;
  mailbox_ = std::make_unique<TransportMailbox>(rt_, *transport_, options_.epoch,
                                                static_cast<TransportMailbox::Owner&>(*this));
  if (const Status& over = verdict_.ok() ? left_ : verdict_; !over.ok()) mailbox_->end_all(over);
  for (const auto& [peer, why] : losses_) mailbox_->lost(peer, why);
  tell_waiting_on_loop();
  return *mailbox_;
}

runtime::Task<Status> TransportGroup::leave() {
  if (verdict_.ok()) {
    // Without a barrier where ranks may be lost: the goodbyes alone then wait for all that are there.
    TimeNs limit = kForever;
    Status met = left_;
    if (met.ok() && !has_expendable_) {
      met = co_await run(leave_request());
      limit = rt_.now() + 2 * options_.membership.deadline;
    }
    if (met.ok()) met = co_await membership_->leave(limit);
    left_ = met.ok()
                ? error(Code::kInvalid, "[comm] rank {} had left: expected no call after leave()", rank())
                : met;
    if (mailbox_) mailbox_->end_all(left_);
    if (verdict_.ok() && membership_->verdict().ok()) co_return met;
  }
  // Bounded: poison completes everything from the loop.
  co_await drained_.wait_until(kForever);
  co_return verdict_;
}

Status TransportGroup::set_expendable(std::vector<int> ranks) {
  for (const int r : ranks)
    if (r <= 0 || r >= world())
      return error(Code::kInvalid, "[comm] rank {} cannot be expendable: expected some of 1..{}", r,
                   world() - 1);
  if (!transport_->capabilities().survives_loss) {
    rt_.log(fmt::format("[comm] {} does not survive the loss of a rank: all ranks end together",
                        transport_->name()));
    return {};
  }
  has_expendable_ = has_expendable_ || !ranks.empty();
  membership_->set_expendable(ranks, [this](int peer, const Status& why) { lost_on_loop(peer, why); });
  return {};
}

Result<std::unique_ptr<Group>> TransportGroup::subgroup(std::vector<int> ranks, std::uint16_t id) {
  TR_ASSIGN_OR_RETURN(auto members, make_members(std::move(ranks), id, rank(), world(), options_.id));
  book_.join(id, *std::min_element(members->ranks.begin(), members->ranks.end()));
  subgroups_.push_back(members);
  for (const auto& [peer, why] : losses_)
    if (std::find(members->ranks.begin(), members->ranks.end(), peer) != members->ranks.end())
      forget_group(id, why);
  return make_subgroup(*this, std::move(members));
}

// Calls of groups that it was in fail; everything else goes on.
void TransportGroup::lost_on_loop(int peer, const Status& why) {
  if (!verdict_.ok() || !losses_.emplace(peer, why).second) return;
  rt_.log(why.message());
  transport_->forget_peer(peer, why);
  forget_group(options_.id, why);
  if (direct_) direct_->end_with(peer, why);
  for (const auto& members : subgroups_)
    if (std::find(members->ranks.begin(), members->ranks.end(), peer) != members->ranks.end())
      forget_group(members->id, why);
  if (mailbox_) mailbox_->lost(peer, why);
  const std::vector<std::uint32_t> active(active_.begin(), active_.end());
  for (const std::uint32_t number : active) settle_on_loop(runs_[number]);
  tell_waiting_on_loop();
}

void TransportGroup::forget_group(std::uint16_t id, const Status& why) {
  if (!dead_groups_.emplace(id, why).second) return;
  book_.quit(id);
  transport_->forget_group(id, why);
  for (const std::uint32_t number : active_) {
    RunSlot& slot = runs_[number];
    if (slot.call.group != id) continue;
    slot.failure = why;
    slot.run->stop();
  }
}

void TransportGroup::fail_all_on_loop(const Status& verdict) {
  verdict_ = verdict;
  for (const std::uint32_t number : active_) runs_[number].run->stop();
  if (direct_) direct_->end_all(verdict);
  if (mailbox_) mailbox_->end_all(verdict);
  transport_->poison(verdict, [this] { drained_.set(true); });
  const std::vector<std::uint32_t> active(active_.begin(), active_.end());
  for (const std::uint32_t number : active) settle_on_loop(runs_[number]);
}

namespace {

// The host of every rank; nothing where one has all of them or each has its own: no algorithm gains by it.
std::vector<std::int32_t> machines_of(const net::Transport& transport) {
  std::vector<std::int32_t> hosts;
  bool several = false, shared = false;
  for (int r = 0; r < transport.world(); ++r) {
    hosts.push_back(transport.host_of(r));
    several = several || hosts.back() != hosts.front();
    shared = shared || hosts.back() != r;
  }
  if (!several || !shared) hosts.clear();
  return hosts;
}

}  // namespace

Result<std::unique_ptr<Group>> make_group(runtime::Runtime& rt, std::unique_ptr<net::Transport> transport,
                                          GroupOptions options) {
  if (transport == nullptr) return error(Code::kInvalid, "[comm] a group needs a transport");
  if (options.id >= kMailGroup)
    return error(Code::kInvalid, "[comm] a group cannot have id {}: expected one below {}", options.id,
                 kMailGroup);
  if (!options.machine_of.empty() && static_cast<int>(options.machine_of.size()) != transport->world())
    return error(Code::kInvalid, "[comm] machine_of has {} entries: expected one per rank ({})",
                 options.machine_of.size(), transport->world());
  if (options.machine_of.empty()) options.machine_of = machines_of(*transport);
  return std::unique_ptr<Group>(
      std::make_unique<TransportGroup>(rt, std::move(transport), std::move(options)));
}

}  // namespace trireme::comm
