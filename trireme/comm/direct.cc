#include "trireme/comm/direct.h"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "trireme/comm/copy.h"
#include "trireme/comm/direct_layout.h"
#include "trireme/comm/group.h"
#include "trireme/net/endpoint.h"

namespace trireme::comm {
namespace {

// Done at once; between such stretches the loop turns.
constexpr std::int64_t kBudgetBytes = 1 << 20, kInlineSumBytes = 4 << 20;
constexpr int kSpinsBetweenClocks = 64;

}  // namespace

Direct::Direct(runtime::Runtime& rt, net::Window& window, int rank, int world, TimeNs spin_ns,
               Listener& listener)
    : rt_(rt),
      window_(window),
      rank_(rank),
      spin_ns_(rt.is_virtual() ? 0 : spin_ns),
      listener_(listener),
      inputs_(static_cast<std::size_t>(world)),
      outputs_(static_cast<std::size_t>(world)) {
  TR_CHECK(window.bytes() >= window_bytes() && window.peer(rank) != nullptr);
  std::vector<int> everybody(static_cast<std::size_t>(world));
  std::iota(everybody.begin(), everybody.end(), 0);
  for (std::uint64_t lane = 0; lane < kLanes; ++lane)
    add_lane(everybody, std::vector<std::uint64_t>(everybody.size(), lane * kLaneBytes));
  rt_.network().add_poller(this);
}

Direct::~Direct() { rt_.network().remove_poller(this); }

std::uint64_t Direct::window_bytes() { return kLanes * kLaneBytes; }

bool Direct::is_small(std::int64_t bytes, int world) {
  return bytes <= static_cast<std::int64_t>(kSmallBytes) && bytes * (world - 1) <= kSmallReadBytes;
}

std::uint64_t Direct::lane_bytes() { return kLaneBytes; }

void Direct::clear_lane(std::byte* at) { std::memset(at, 0, kSmallAt); }

int Direct::add_lane(std::span<const int> ranks, std::span<const std::uint64_t> offsets) {
  Lane& l = lanes_.emplace_back();
  l.ranks.assign(ranks.begin(), ranks.end());
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    if (ranks[i] == rank_) l.me = static_cast<int>(i);
    l.windows.push_back(window_.peer(ranks[i]));
    l.at.push_back(l.windows.back() + offsets[i]);
  }
  return static_cast<int>(lanes_.size()) - 1;
}

LaneMemory Direct::memory(const Lane& l, int member) { return {l.at[static_cast<std::size_t>(member)]}; }

BlockPartition Direct::partition_of(const Lane& l) { return {l.call.count, l.call.elem_bytes, l.world()}; }

void Direct::wake_others(const Lane& l, Mark mark, std::uint64_t count) {
  if (!rt_.is_virtual()) {
    std::atomic_thread_fence(std::memory_order_seq_cst);
    if (!everybody_reached(l, mark, count)) return;
  }
  for (const int rank : l.ranks)
    if (rank != rank_) window_.wake(rank);
}

bool Direct::start(int lane, DirectCall call) {
  Lane& l = lanes_[static_cast<std::size_t>(lane)];
  TR_CHECK(l.world() > 1 && !abandoned_);
  if (!l.active) return begin(lane, std::move(call));
  l.waiting.push_back(std::move(call));
  return false;
}

bool Direct::begin(int lane, DirectCall call) {
  Lane& l = lanes_[static_cast<std::size_t>(lane)];
  const std::int64_t bytes = call.count * call.elem_bytes;
  l.call = std::move(call);
  l.active = true;
  ++l.number;
  l.is_small = is_small(bytes, l.world()) && !l.call.two_rounds;
  l.checked = l.failed = false;
  l.first_missing = 0;
  l.num_blocks = 0;
  if (!l.is_small) {
    l.streaming = !rt_.is_virtual() && store_policy_.choose(static_cast<std::uint64_t>(bytes));
    l.num_blocks = partition_of(l).num_blocks();
    l.block_bytes = static_cast<std::uint64_t>(block_bytes_for(bytes));
    l.num_places = kRingBytes / l.block_bytes;
  }
  l.laid = l.added = l.taken = 0;
  if (l.is_small && bytes > 0) {
    copy_bytes(memory(l, l.me).small(l.number), l.call.in, static_cast<std::size_t>(bytes));
    bytes_laid_ += static_cast<std::uint64_t>(bytes);
  }
  l.own_in_at = offset_of(l.call.in, bytes);
  l.own_out_at = offset_of(l.call.out, bytes);
  // Until somebody's header says otherwise.
  l.in_place = !l.is_small && l.own_in_at != kElsewhere && l.own_out_at != kElsewhere;
  const Chunk own = chunk_of(l.call.count, l.call.elem_bytes, l.me, l.world());
  l.next = own.begin;
  l.end = own.end;
  publish_header(l);
  wake_others(l, Mark::header, l.number);

  bool ended = advance(lane, kBudgetBytes);
  if (!ended && spin_ns_ > 0 && active_.empty() && bytes <= kInlineSumBytes) {
    TimeNs until = 0;
    for (int i = 1; !ended && !l.failed; ++i) {
      if (i % kSpinsBetweenClocks == 0) {
        const TimeNs now = rt_.now();
        if (until == 0) until = now + spin_ns_;
        if (now >= until) break;
      }
      ended = advance(lane, kBudgetBytes);
    }
  }
  if (abandoned_) return false;
  if (ended && !rt_.is_virtual()) {
    l.active = false;
    return true;
  }
  active_.push_back(lane);
  if (ended) finish_on_loop(lane);
  return false;
}

void Direct::publish_header(Lane& l) {
  const LaneMemory own = memory(l, l.me);
  CallHeader& header = own.header(l.number);
  header.high = l.call.id.high();
  header.low = l.call.id.low();
  header.fingerprint = l.call.fingerprint.pack();
  header.algorithm_hash = l.call.algorithm_hash;
  header.in_at = l.own_in_at;
  header.out_at = l.own_out_at;
  header.number.store(l.number, std::memory_order_release);
}

// True: everybody has come and says the same.
bool Direct::check_headers(Lane& l) {
  const std::int64_t bytes = l.call.count * l.call.elem_bytes;
  for (; l.first_missing < l.world(); ++l.first_missing) {
    if (l.first_missing == l.me) continue;
    const LaneMemory theirs_at = memory(l, l.first_missing);
    const CallHeader& header = theirs_at.header(l.number);
    if (header.number.load(std::memory_order_acquire) != l.number) return false;
    const auto theirs = net::Identity::unpack(header.high, header.low);
    const bool same_call = theirs == l.call.id && header.fingerprint == l.call.fingerprint.pack();
    if (same_call && header.algorithm_hash == l.call.algorithm_hash) {
      l.in_place = l.in_place && is_in_window(header.in_at, bytes) && is_in_window(header.out_at, bytes);
      continue;
    }
    const int peer = l.ranks[static_cast<std::size_t>(l.first_missing)];
    l.failed = true;
    const std::string got = same_call
                                ? "another algorithm or other leaf runs"
                                : net::describe_call(theirs, net::Fingerprint::unpack(header.fingerprint));
    const std::string expected =
        same_call ? "those of this rank" : net::describe_call(l.call.id, l.call.fingerprint);
    listener_.on_direct_failed(l.call.cookie, peer, net::disagreement(rank_, peer, l.call.id, got, expected));
    return false;
  }
  l.checked = true;
  if (!l.is_small) l.started = rt_.now();
  return true;
}

// True: the call has ended.
bool Direct::advance(int lane, std::int64_t budget_bytes) {
  Lane& l = lanes_[static_cast<std::size_t>(lane)];
  if (l.failed) return false;
  if (!l.checked && !check_headers(l)) {
    // What this rank can do by itself goes on, so that the others do not wait for it.
    if (!l.failed && !l.is_small && !l.in_place && l.laid == 0) lay_block(l);
    return false;
  }
  if (l.is_small) return advance_small(l);
  return l.in_place ? advance_in_place(l, budget_bytes) : advance_large(l, budget_bytes);
}

bool Direct::advance_small(Lane& l) {
  if (l.call.count == 0) return true;  // a barrier: everybody has come
  for (int p = 0; p < l.world(); ++p)
    inputs_[static_cast<std::size_t>(p)] = p == l.me ? l.call.in : memory(l, p).small(l.number);
  l.call.order->run(l.call.combine, inputs_, l.call.out, nullptr, l.call.count, l.call.elem_bytes);
  if (l.call.divide_by > 0) l.call.combine.scale(l.call.out, l.call.count, l.call.divide_by);
  return true;
}

bool Direct::has_reached(const Lane& l, int member, Mark mark, std::uint64_t count) {
  if (member == l.me) return true;
  const LaneMemory m = memory(l, member);
  if (mark == Mark::header) return m.header(count).number.load(std::memory_order_acquire) == count;
  return (mark == Mark::summed ? m.summed() : m.laid()).load(std::memory_order_acquire) >= count;
}

int Direct::first_behind(const Lane& l, Mark mark, std::uint64_t count, int from) {
  int p = from;
  while (p < l.world() && has_reached(l, p, mark, count)) ++p;
  return p;
}

bool Direct::everybody_reached(const Lane& l, Mark mark, std::uint64_t count) {
  return first_behind(l, mark, count) == l.world();
}

bool Direct::advance_large(Lane& l, std::int64_t budget_bytes) {
  for (std::int64_t left = rt_.is_virtual() ? INT64_MAX : budget_bytes; left > 0; left -= kMaxBlockBytes) {
    const auto upto = [&](std::int64_t block) { return l.number_of(block) + 1; };
    if (l.taken < l.added && everybody_reached(l, Mark::summed, upto(l.taken))) {
      take_block(l);
      if (l.taken < l.num_blocks) continue;
      const auto bytes = static_cast<std::uint64_t>(l.call.count * l.call.elem_bytes);
      if (!rt_.is_virtual()) store_policy_.learn(bytes, l.streaming, rt_.now() - l.started);
      l.ring_at = (l.place(l.num_blocks)) * l.block_bytes;
      l.blocks_before += static_cast<std::uint64_t>(l.num_blocks);
      return true;
    }
    if (l.added < l.laid && everybody_reached(l, Mark::laid, upto(l.added)))
      add_block(l);
    else if (l.laid < l.num_blocks && l.laid < l.taken + kDepth)
      lay_block(l);
    else
      return false;
  }
  return false;
}

void Direct::lay(const Lane& l, std::byte* to, const std::byte* from, std::int64_t bytes) {
  (l.streaming ? copy_streaming : copy_bytes)(to, from, static_cast<std::size_t>(bytes));
}

// Everything but the chunk that this rank adds itself.
void Direct::lay_block(Lane& l) {
  const BlockPartition cut = partition_of(l);
  const std::int64_t b = l.laid++, size = cut.size(b), eb = l.call.elem_bytes;
  const std::byte* from = l.call.in + cut.first(b) * eb;
  const LaneMemory m = memory(l, l.me);
  const std::int64_t begin = cut.begin(b, l.me), end = cut.end(b, l.me);
  lay(l, m.block(l.place(b), l.block_bytes), from, begin * eb);
  lay(l, m.block(l.place(b), l.block_bytes) + end * eb, from + end * eb, (size - end) * eb);
  bytes_laid_ += static_cast<std::uint64_t>((size - end + begin) * eb);
  m.laid().store(l.number_of(l.laid), std::memory_order_release);
  wake_others(l, Mark::laid, l.number_of(l.laid));
}

void Direct::add_block(Lane& l) {
  const BlockPartition cut = partition_of(l);
  const std::int64_t b = l.added++, eb = l.call.elem_bytes, at = cut.first(b) * eb;
  const std::int64_t begin = cut.begin(b, l.me) * eb, count = cut.end(b, l.me) - cut.begin(b, l.me);
  const LaneMemory m = memory(l, l.me);
  if (count > 0) {
    for (int p = 0; p < l.world(); ++p)
      inputs_[static_cast<std::size_t>(p)] =
          p == l.me ? l.call.in + at + begin : memory(l, p).block(l.place(b), l.block_bytes) + begin;
    std::byte* out = l.call.out + at + begin;
    std::byte* sum = m.sum(l.place(b), l.block_bytes);
    const bool at_once = l.call.divide_by == 0 && !l.streaming;
    l.call.order->run(l.call.combine, inputs_, out, at_once ? sum : nullptr, count, eb);
    if (l.call.divide_by > 0) l.call.combine.scale(out, count, l.call.divide_by);
    if (!at_once) lay(l, sum, out, count * eb);
    bytes_laid_ += static_cast<std::uint64_t>(count * eb);
  }
  m.summed().store(l.number_of(l.added), std::memory_order_release);
  wake_others(l, Mark::summed, l.number_of(l.added));
}

void Direct::take_block(Lane& l) {
  const BlockPartition cut = partition_of(l);
  const std::int64_t b = l.taken++, eb = l.call.elem_bytes;
  std::byte* into = l.call.out + cut.first(b) * eb;
  for (int p = 0; p < l.world(); ++p) {
    const std::int64_t begin = cut.begin(b, p) * eb, end = cut.end(b, p) * eb;
    if (p != l.me && end > begin)
      copy_bytes(into + begin, memory(l, p).sum(l.place(b), l.block_bytes),
                 static_cast<std::size_t>(end - begin));
  }
}

int Direct::waits_for(int lane) const {
  const Lane& l = lanes_[static_cast<std::size_t>(lane)];
  if (!l.active || l.charging) return -1;
  int p = l.world();
  if (!l.checked) {
    p = first_behind(l, Mark::header, l.number, l.first_missing);
  } else if (l.in_place) {
    p = first_behind(l, Mark::summed, l.number_of(1));
  } else if (!l.is_small) {
    if (l.taken < l.added) p = first_behind(l, Mark::summed, l.number_of(l.taken) + 1);
    if (p == l.world() && l.added < l.laid) p = first_behind(l, Mark::laid, l.number_of(l.added) + 1);
  }
  return p < l.world() ? l.ranks[static_cast<std::size_t>(p)] : -1;
}

void Direct::abandon() {
  abandoned_ = true;
  for (std::size_t lane = 0; lane < lanes_.size(); ++lane) abandon_lane(static_cast<int>(lane));
}

void Direct::abandon_lane(int lane) {
  Lane& l = lanes_[static_cast<std::size_t>(lane)];
  l.active = false;
  l.call = {};
  l.waiting.clear();
  std::erase(active_, lane);
}

bool Direct::is_in_lane(int lane, int rank) const {
  const std::vector<int>& ranks = lanes_[static_cast<std::size_t>(lane)].ranks;
  return std::find(ranks.begin(), ranks.end(), rank) != ranks.end();
}

// In virtual time what the processor did is paid for here: three times the vector passes through it, or once
// where nobody else gets the sum.
void Direct::finish_on_loop(int lane) {
  Lane& l = lanes_[static_cast<std::size_t>(lane)];
  const auto end = [this, lane] {
    Lane& done = lanes_[static_cast<std::size_t>(lane)];
    if (abandoned_ || !done.active) return;
    std::erase(active_, lane);
    done.active = done.charging = false;
    const std::uint64_t cookie = done.call.cookie;
    done.call = {};
    listener_.on_direct_ended(cookie);
    start_next(lane);
  };
  if (!rt_.is_virtual()) {
    end();
    return;
  }
  l.charging = true;
  runtime::ComputeRequest request;
  const auto elems = static_cast<double>(l.call.count);
  request.cost = {elems, (l.call.own_chunk ? 1.0 : 3.0) * elems * static_cast<double>(l.call.elem_bytes)};
  request.label = "reduce";
  request.done = end;
  rt_.start_compute(std::move(request));
}

// Those that end at once are told from the loop as well.
void Direct::start_next(int lane) {
  Lane& l = lanes_[static_cast<std::size_t>(lane)];
  while (!abandoned_ && !l.active && !l.waiting.empty()) {
    DirectCall next = std::move(l.waiting.front());
    l.waiting.pop_front();
    const std::uint64_t cookie = next.cookie;
    if (begin(lane, std::move(next))) listener_.on_direct_ended(cookie);
  }
}

bool Direct::poll_on_loop() {
  bool progress = false;
  for (std::size_t i = 0; i < active_.size() && !abandoned_;) {
    const int lane = active_[i];
    Lane& l = lanes_[static_cast<std::size_t>(lane)];
    const std::int64_t before = l.laid + l.added + l.taken + l.next;
    const bool checked = l.checked;
    const bool ended = !l.charging && advance(lane, kBudgetBytes);
    if (abandoned_) return true;
    if (ended || l.checked != checked || l.laid + l.added + l.taken + l.next != before) {
      progress = true;
      listener_.on_direct_progress();
    }
    if (ended) finish_on_loop(lane);
    if (i < active_.size() && active_[i] == lane) ++i;
  }
  return progress;
}

}  // namespace trireme::comm
