#include "trireme/comm/direct_calls.h"

#include <algorithm>

namespace trireme::comm {
namespace {

// More would spend their time looking at each other's notices.
constexpr int kMaxWorld = 64;

bool same_runs(const std::vector<collective::LeafRun>& a, const std::vector<collective::LeafRun>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](const auto& x, const auto& y) { return x.first == y.first && x.count == y.count; });
}

}  // namespace

std::unique_ptr<DirectCalls> DirectCalls::make(runtime::Runtime& rt, net::Transport& transport,
                                               TimeNs spin_ns, Owner& owner) {
  net::Window* window = transport.exchange();
  if (window == nullptr || transport.world() < 2 || transport.world() > kMaxWorld ||
      window->bytes() < Direct::window_bytes())
    return nullptr;
  return std::make_unique<DirectCalls>(rt, *window, transport.rank(), transport.world(), spin_ns, owner);
}

DirectCalls::DirectCalls(runtime::Runtime& rt, net::Window& window, int rank, int world, TimeNs spin_ns,
                         Owner& owner)
    : rt_(rt), world_(world), owner_(owner), direct_(rt, window, rank, world, spin_ns, *this) {}

TreeSum* DirectCalls::order_of(const Call& call) {
  for (Order& o : orders_)
    if (o.num_leaves == call.num_leaves && same_runs(o.runs, call.leaf_runs)) return o.sum.get();
  std::optional<TreeSum> sum;
  if (call.leaf_runs.empty() || static_cast<int>(call.leaf_runs.size()) == world_)
    sum = TreeSum::make(world_, call.leaf_runs, call.num_leaves);
  orders_.push_back({call.leaf_runs, call.num_leaves, sum ? std::make_unique<TreeSum>(*sum) : nullptr});
  return orders_.back().sum.get();
}

bool DirectCalls::takes(const Request& r) {
  if (r.members != nullptr || r.call.slot >= Direct::kLanes) return false;
  if (r.kind == collective::Kind::kBarrier) return r.call.algorithm.empty();
  return r.kind == collective::Kind::kAllreduce && r.count > 0 &&
         (r.call.algorithm.empty() || r.call.algorithm == "fixed-tree") && order_of(r.call) != nullptr;
}

DirectCalls::Started DirectCalls::start(Request& r, const net::Identity& id,
                                        const net::Fingerprint& fingerprint, const Combine& combine,
                                        std::uint64_t serial) {
  std::uint32_t number = static_cast<std::uint32_t>(slots_.size());
  if (free_.empty()) {
    slots_.emplace_back();
  } else {
    number = free_.back();
    free_.pop_back();
  }
  Slot& slot = slots_[number];
  slot.serial = serial;
  slot.lane = r.call.slot;
  slot.kind = static_cast<collective::Kind>(fingerprint.kind);
  slot.step = r.call.step;
  slot.label = r.call.label;
  slot.ended.reset();
  slot.done = nullptr;

  DirectCall call;
  call.id = id;
  call.fingerprint = fingerprint;
  call.count = r.count;
  call.elem_bytes = static_cast<std::int64_t>(dtype_size(r.dtype));
  call.combine = combine;
  call.divide_by = r.call.reduction == collective::Reduction::kMean ? world_ : 0;
  call.order = order_of(r.call);
  call.cookie = number;
  call.keep[0] = std::move(r.result);
  if (!r.partials.empty()) call.keep[1] = std::move(r.partials[0]);
  call.out = call.keep[0].raw();
  call.in = call.keep[1].is_null() ? call.out : call.keep[1].raw();
  active_.push_back(number);
  if (!direct_.start(slot.lane, std::move(call))) return {slot.ended, number};
  std::erase(active_, number);
  free_.push_back(number);
  return {Status(), number};
}

runtime::Task<Status> DirectCalls::wait(std::uint32_t number) {
  Slot& slot = slots_[number];
  runtime::OneShot<Status> done(rt_);
  struct Waiting {  // forgets the frame when it goes
    Slot& slot;
    ~Waiting() { slot.done = nullptr; }
  };
  if (!slot.ended) {
    slot.done = &done;
    const Waiting waiting{slot};
    // Bounded by the membership: a lost, silent or stuck rank ends it.
    co_await done.wait_until(kForever);
    co_return done.value();
  }
  co_return *slot.ended;
}

int DirectCalls::waits_for() const {
  return active_.empty() ? -1 : direct_.waits_for(slots_[active_.front()].lane);
}

void DirectCalls::end(std::uint32_t number, const Status& status) {
  Slot& slot = slots_[number];
  slot.ended = status;
  std::erase(active_, number);
  if (slot.done != nullptr) slot.done->set(status);
}

void DirectCalls::end_all(const Status& verdict) {
  direct_.abandon();
  const std::vector<std::uint32_t> active(active_.begin(), active_.end());
  for (const std::uint32_t number : active) end(number, verdict);
}

void DirectCalls::on_direct_ended(std::uint64_t cookie) {
  end(static_cast<std::uint32_t>(cookie), ok_status());
  owner_.on_direct_ended();
}

void DirectCalls::on_direct_failed(std::uint64_t cookie, int peer, const Status& status) {
  owner_.on_direct_failed(peer, slots_[cookie].operation(), status);
}

}  // namespace trireme::comm
