#include "trireme/comm/direct_calls.h"

#include <algorithm>
#include <array>
#include <numeric>

namespace trireme::comm {
namespace {

// More would spend their time looking at each other's headers.
constexpr int kMaxWorld = 64;
// Each takes memory that tensors could lie in.
constexpr int kMaxAdded = 16;
// So many shards of a step may have a lane of their own each.
constexpr std::uint32_t kMaxShards = 16;

// What can run here, under these names.
constexpr std::array<std::string_view, 4> kAlgorithms{"", "fixed-tree", "one-shot", "two-shot"};
constexpr std::size_t kOneShot = 2, kTwoShot = 3;
std::optional<std::size_t> algorithm_number(std::string_view name) {
  if (name.empty()) return 0;
  for (std::size_t i = 1; i < kAlgorithms.size(); ++i)
    if (kAlgorithms[i] == name) return i;
  return std::nullopt;
}

// Lanes that are there from the start.
bool has_slot_lane(const Request& r) {
  return r.members == nullptr && r.call.slot < Direct::kLanes && r.call.num_shards == 1;
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
  return std::make_unique<DirectCalls>(rt, transport, spin_ns, owner);
}

DirectCalls::DirectCalls(runtime::Runtime& rt, net::Transport& transport, TimeNs spin_ns, Owner& owner)
    : rt_(rt),
      transport_(transport),
      owner_(owner),
      direct_(rt, *transport.exchange(), transport.rank(), transport.world(), spin_ns, *this) {
  for (int lane = 0; lane < Direct::kLanes; ++lane)
    slot_places_.push_back({.asked = true, .known = true, .lane = lane, .memory = nullptr});
}

const DirectCalls::Order& DirectCalls::order_of(const Request& r) {
  const Call& call = r.call;
  const int world = world_of(r);
  for (const Order& o : orders_)
    if (o.world == world && o.num_leaves == call.num_leaves && same_runs(o.runs, call.leaf_runs)) return o;
  std::optional<TreeSum> sum;
  if (call.leaf_runs.empty() || static_cast<int>(call.leaf_runs.size()) == world)
    sum = TreeSum::make(world, call.leaf_runs, call.num_leaves);
  std::uint64_t hash = static_cast<std::uint64_t>(call.num_leaves);
  for (const collective::LeafRun& run : call.leaf_runs)
    hash = (hash * 0x9E3779B97F4A7C15ULL + static_cast<std::uint64_t>(run.count)) ^ (hash >> 29);
  orders_.push_back(
      {world, call.leaf_runs, call.num_leaves, sum ? std::make_unique<TreeSum>(*sum) : nullptr, hash});
  return orders_.back();
}

bool DirectCalls::takes(const Request& r) {
  // A lane needs the same order on every rank, which the calls of one shard have.
  if (r.call.num_shards > kMaxShards || world_of(r) < 2 || r.is_own) return false;
  if (r.kind == collective::Kind::kBarrier) return r.call.algorithm.empty() && has_slot_lane(r);
  if (r.kind != collective::Kind::kAllreduce || r.count == 0) return false;
  if (r.call.algorithm.empty() && !has_slot_lane(r)) return false;
  const auto algorithm = algorithm_number(r.call.algorithm);
  const auto bytes = r.count * static_cast<std::int64_t>(dtype_size(r.dtype));
  if (!algorithm || (algorithm == kOneShot && !Direct::is_small(bytes, world_of(r)))) return false;
  return order_of(r).sum != nullptr;
}

DirectCalls::Place& DirectCalls::place_of(const Request& r) {
  if (has_slot_lane(r)) return slot_places_[r.call.slot];
  const int group = r.members == nullptr ? -1 : r.members->id;
  return places_[{group, r.call.slot, r.call.step % r.call.num_shards}];
}

std::int64_t DirectCalls::take_memory(Place& place) {
  if (num_added_ < kMaxAdded) place.memory = transport_.allocate_exchange(Direct::lane_bytes());
  if (place.memory == nullptr) return -1;
  Direct::clear_lane(place.memory.get());
  return place.memory.get() - transport_.exchange()->peer(transport_.rank());
}

void DirectCalls::settle(Place& place, const Request& r, std::span<const std::int64_t> offsets) {
  place.known = true;
  const bool all = !offsets.empty() &&
                   std::all_of(offsets.begin(), offsets.end(), [](std::int64_t at) { return at >= 0; });
  if (all) {
    std::vector<int> ranks(offsets.size());
    std::iota(ranks.begin(), ranks.end(), 0);
    if (r.members != nullptr) ranks = r.members->ranks;
    place.lane = direct_.add_lane(ranks, std::vector<std::uint64_t>(offsets.begin(), offsets.end()));
    ++num_added_;
  } else {
    place.memory = nullptr;
  }
  if (!place.waiting.empty()) place.waiting.front()->set(true);
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
  slot.lane = place_of(r).lane;
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
  call.divide_by = r.call.reduction == collective::Reduction::kMean ? world_of(r) : 0;
  const Order& order = order_of(r);
  call.order = order.sum.get();
  call.two_rounds = r.call.algorithm == kAlgorithms[kTwoShot];
  call.own_chunk = r.call.own_chunk;
  call.algorithm_hash =
      2 * (order.hash * kAlgorithms.size() + algorithm_number(r.call.algorithm).value_or(0)) +
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

const DirectCalls::Slot& DirectCalls::oldest() const {
  const auto in_its_time = std::find_if(active_.begin(), active_.end(), [this](std::uint32_t number) {
    return (slots_[number].serial & kAheadSerial) == 0;
  });
  return slots_[in_its_time != active_.end() ? *in_its_time : active_.front()];
}

int DirectCalls::waits_for() const { return active_.empty() ? -1 : direct_.waits_for(oldest().lane); }

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

void DirectCalls::end_with(int rank, const Status& why) {
  for (const std::uint32_t number : std::vector<std::uint32_t>(active_.begin(), active_.end())) {
    const int lane = slots_[number].lane;
    if (!direct_.is_in_lane(lane, rank)) continue;
    direct_.abandon_lane(lane);
    end(number, why);
  }
}

void DirectCalls::on_direct_ended(std::uint64_t cookie) {
  end(static_cast<std::uint32_t>(cookie), ok_status());
  owner_.on_direct_ended();
}

void DirectCalls::on_direct_failed(std::uint64_t cookie, int peer, const Status& status) {
  owner_.on_direct_failed(peer, slots_[cookie].operation(), status);
}

}  // namespace trireme::comm
