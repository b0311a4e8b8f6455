#include "trireme/comm/direct_calls.h"

#include <algorithm>
#include <array>

namespace trireme::comm {
namespace {

// More would spend their time looking at each other's notices.
constexpr int kMaxWorld = 64;

// What can run here, under these names.
constexpr std::array<std::string_view, 4> kAlgorithms{"", "fixed-tree", "one-shot", "two-shot"};
constexpr std::size_t kOneShot = 2, kTwoShot = 3;
std::optional<std::size_t> algorithm_number(std::string_view name) {
  if (name.empty()) return 0;
  for (std::size_t i = 1; i < kAlgorithms.size(); ++i)
    if (kAlgorithms[i] == name) return i;
  return std::nullopt;
}

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

const DirectCalls::Order& DirectCalls::order_of(const Call& call) {
  for (const Order& o : orders_)
    if (o.num_leaves == call.num_leaves && same_runs(o.runs, call.leaf_runs)) return o;
  std::optional<TreeSum> sum;
  if (call.leaf_runs.empty() || static_cast<int>(call.leaf_runs.size()) == world_)
    sum = TreeSum::make(world_, call.leaf_runs, call.num_leaves);
  std::uint64_t hash = static_cast<std::uint64_t>(call.num_leaves);
  for (const collective::LeafRun& run : call.leaf_runs)
    hash = (hash * 0x9E3779B97F4A7C15ULL + static_cast<std::uint64_t>(run.count)) ^ (hash >> 29);
  orders_.push_back({call.leaf_runs, call.num_leaves, sum ? std::make_unique<TreeSum>(*sum) : nullptr, hash});
  return orders_.back();
}

bool DirectCalls::takes(const Request& r) {
  if (r.members != nullptr || r.call.slot >= Direct::kLanes) return false;
  if (r.call.num_shards > 1) return false;  // a lane needs the same order on every rank
  if (r.kind == collective::Kind::kBarrier) return r.call.algorithm.empty();
  if (r.kind != collective::Kind::kAllreduce || r.count == 0) return false;
  const auto algorithm = algorithm_number(r.call.algorithm);
  const auto bytes = r.count * static_cast<std::int64_t>(dtype_size(r.dtype));
  if (!algorithm || (algorithm == kOneShot && !Direct::is_small(bytes, world_))) return false;
  return order_of(r.call).sum != nullptr;
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
  slot.time = time_of(r.call);
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
  const Order& order = order_of(r.call);
  call.order = order.sum.get();
  call.two_rounds = r.call.algorithm == kAlgorithms[kTwoShot];
  call.own_chunk = r.call.own_chunk;
  call.manner = 2 * (order.hash * kAlgorithms.size() + algorithm_number(r.call.algorithm).value_or(0)) +
                (r.call.own_chunk ? 1 : 0);
  call.cookie = number;
  call.out = r.result.raw();
  call.in = r.partials.empty() ? call.out : r.partials[0].raw();
  active_.push_back(number);
  if (!direct_.start(slot.lane, call)) {  // may have ended it with an error
    slot.keep[0] = r.result;
    if (!r.partials.empty()) slot.keep[1] = r.partials[0];
    return {slot.ended, number};
  }
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
  }
  const Status status = *slot.ended;
  free_.push_back(number);
  co_return status;
}

int DirectCalls::waits_for() const {
  return active_.empty() ? -1 : direct_.waits_for(slots_[active_.front()].lane);
}

void DirectCalls::end(std::uint32_t number, const Status& status) {
  Slot& slot = slots_[number];
  slot.ended = status;
  slot.keep = {};
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
