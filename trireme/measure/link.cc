#include "trireme/measure/link.h"

#include <algorithm>
#include <cstring>

#include "trireme/net/factory.h"
#include "trireme/runtime/real/real_runtime.h"
#include "trireme/runtime/sync.h"

namespace trireme::measure {
namespace {

using runtime::Task;

constexpr TimeNs kDeadline = 60 * kSecond;
constexpr std::uint64_t kSmall = 64;
constexpr std::uint64_t kMaxBytes = 4 << 20;

// Exchanges between two ranks, driven by completions as collectives are. Both ranks call the same sequence.
class Exchange final : public net::Completion {
 public:
  Exchange(runtime::Runtime& rt, net::Transport& transport)
      : rt_(rt), transport_(transport), out_(kMaxBytes), in_(kMaxBytes) {}

  // `count` round trips of `bytes`; gives their time on rank 0.
  Task<Result<TimeNs>> ping_pong(std::uint64_t bytes, int count) {
    begin(bytes, count, 1);
    const TimeNs start = rt_.now();
    receive(0);
    if (transport_.rank() == 0) send(0);
    TR_CO_RETURN_IF_ERROR(co_await finish());
    co_return rt_.now() - start;
  }

  // `burst` small messages from rank 0 to rank 1 at once, then one back.
  Task<Result<TimeNs>> burst_and_back(int burst) {
    begin(kSmall, 1, burst);
    const TimeNs start = rt_.now();
    if (transport_.rank() == 0) {
      receive(0);
      for (int i = 0; i < burst; ++i) send(i);
    } else {
      for (int i = 0; i < burst; ++i) receive(i);
    }
    TR_CO_RETURN_IF_ERROR(co_await finish());
    co_return rt_.now() - start;
  }

 private:
  void begin(std::uint64_t bytes, int count, int burst) {
    bytes_ = bytes;
    left_ = count;
    to_hear_ = transport_.rank() == 0 ? 1 : burst;
    burst_ = burst;
    heard_ = 0;
    done_ = std::make_unique<runtime::OneShot<Status>>(rt_);
  }
  net::Identity identity(int part) const {
    return {.epoch = 1, .group = 0, .slot = 1, .step = step_, .part = static_cast<std::uint32_t>(part)};
  }
  void send(int part) {
    ++under_way_;
    transport_.send(1 - transport_.rank(), identity(part), {.kind = 1, .count = bytes_},
                    {out_.data(), bytes_}, this, 0);
  }
  void receive(int part) {
    ++under_way_;
    transport_.recv(1 - transport_.rank(), identity(part), {.kind = 1, .count = bytes_}, {in_.data(), bytes_},
                    this, 1);
  }

  void on_complete(std::uint64_t cookie, const Status& status) override {
    --under_way_;
    if (!status.ok()) failure_ = status;
    if (status.ok() && cookie == 1 && ++heard_ == to_hear_) heard_all_on_loop();
    if (under_way_ == 0 && (left_ == 0 || !failure_.ok())) done_->set(failure_);
  }

  // Rank 1 answers, rank 0 begins the next round trip; the recv of the next goes before the send.
  void heard_all_on_loop() {
    const std::uint32_t now = step_;
    --left_;
    heard_ = 0;
    if (transport_.rank() == 1) {
      if (left_ > 0) {
        ++step_;
        for (int i = 0; i < burst_; ++i) receive(i);
        step_ = now;
      }
      send(0);
      step_ = now + 1;
      return;
    }
    step_ = now + 1;
    if (left_ == 0) return;
    receive(0);
    for (int i = 0; i < burst_; ++i) send(i);
  }

  Task<Status> finish() {
    const bool ended = co_await done_->wait_until(rt_.now() + kDeadline);
    if (!ended)
      co_return error(Code::kDeadline, "[calibrate] a message over {} took more than a minute",
                      transport_.name());
    co_return done_->value();
  }

  runtime::Runtime& rt_;
  net::Transport& transport_;
  std::vector<std::byte> out_, in_;
  std::uint64_t bytes_ = 0;
  int left_ = 0, to_hear_ = 1, burst_ = 1, heard_ = 0, under_way_ = 0;
  std::uint32_t step_ = 0;
  std::unique_ptr<runtime::OneShot<Status>> done_;
  Status failure_;
};

struct Effort {
  std::vector<std::uint64_t> sizes;
  int repeats, bytes_per_repeat, most_trips;
};
Effort effort_of(bool quick) {
  if (quick) return {{kSmall, 16 << 10, 256 << 10}, 3, 1 << 20, 20};
  return {{kSmall, 1 << 10, 4 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20, 4 << 20}, 5, 4 << 20, 100};
}

// What rank 0 finds.
struct Found {
  std::vector<cost::TimedSize> sizes;  // one way
  double overhead_seconds = 0;         // per message
  double peer_bytes_per_second = 0;
};

// A copy out of the peer's memory, in place.
Task<Status> copy_from_peer(runtime::Runtime& rt, net::Transport& transport, Exchange& exchange, Found& found,
                            int repeats) {
  if (!transport.capabilities().peer_memory) co_return Status();
  Result<std::unique_ptr<net::Window>> window =
      co_await transport.make_window(kMaxBytes, rt.now() + kDeadline);
  if (!window.ok()) co_return window.status();
  std::memset((*window)->local(), 1, kMaxBytes);
  std::vector<std::byte> into(kMaxBytes);
  std::vector<double> seconds;
  for (int i = 0; i <= repeats; ++i) {
    // The other rank writes first, so that the copy reads what is not in this core's cache.
    const Result<TimeNs> met = co_await exchange.ping_pong(kSmall, 1);
    if (!met.ok()) co_return met.status();
    const std::byte* from = (*window)->peer(1 - transport.rank());
    if (transport.rank() == 0 && from != nullptr) {
      const TimeNs start = rt.now();
      std::memcpy(into.data(), from, kMaxBytes);
      if (i > 0) seconds.push_back(to_seconds(rt.now() - start));
    }
    const Result<TimeNs> over = co_await exchange.ping_pong(kSmall, 1);
    if (!over.ok()) co_return over.status();
    if (transport.rank() == 1) std::memset((*window)->local(), i, kMaxBytes);
  }
  if (!seconds.empty())
    found.peer_bytes_per_second = static_cast<double>(kMaxBytes) / summarise_repeats(seconds).median;
  co_return Status();
}

Task<Status> measure(runtime::Runtime& rt, net::Transport& transport, const Effort& effort, Found& found) {
  Exchange exchange(rt, transport);
  // All sizes in every repeat: what disturbs the host for a while disturbs one repeat of each.
  std::vector<std::vector<double>> seconds(effort.sizes.size());
  for (int i = 0; i <= effort.repeats; ++i)
    for (std::size_t s = 0; s < effort.sizes.size(); ++s) {
      const int trips =
          std::clamp(static_cast<int>(effort.bytes_per_repeat / effort.sizes[s]), 2, effort.most_trips);
      const Result<TimeNs> took = co_await exchange.ping_pong(effort.sizes[s], trips);
      if (!took.ok()) co_return took.status();
      if (i > 0) seconds[s].push_back(to_seconds(*took) / (2 * trips));
    }
  for (std::size_t s = 0; s < effort.sizes.size(); ++s) {
    const Repeats r = summarise_repeats(seconds[s]);
    found.sizes.push_back({effort.sizes[s], r.median, r.spread});
  }
  constexpr int kBurst = 64;
  std::vector<double> overheads;
  for (int i = 0; i <= effort.repeats; ++i) {
    const Result<TimeNs> one = co_await exchange.burst_and_back(1);
    if (!one.ok()) co_return one.status();
    const Result<TimeNs> many = co_await exchange.burst_and_back(kBurst);
    if (!many.ok()) co_return many.status();
    if (i > 0) overheads.push_back(to_seconds(*many - *one) / (kBurst - 1));
  }
  found.overhead_seconds = std::max(0.0, summarise_repeats(overheads).median);
  co_return co_await copy_from_peer(rt, transport, exchange, found, effort.repeats);
}

Result<Found> ping_pongs(const LinkMeasurement& what, const Effort& effort, int meeting, TimeNs spin_ns) {
  Found found[2];
  const RankBody body = [&](runtime::Runtime& rt, std::unique_ptr<net::Transport> transport,
                            int rank) -> Task<Status> {
    co_return co_await measure(rt, *transport, effort, found[rank]);
  };
  TR_RETURN_IF_ERROR(run_pair(what, meeting, spin_ns, body));
  return std::move(found[0]);
}

void take_better(Found& best, const Found& other) {
  for (std::size_t s = 0; s < best.sizes.size(); ++s)
    if (other.sizes[s].seconds < best.sizes[s].seconds) best.sizes[s] = other.sizes[s];
  best.overhead_seconds = std::min(best.overhead_seconds, other.overhead_seconds);
  best.peer_bytes_per_second = std::max(best.peer_bytes_per_second, other.peer_bytes_per_second);
}

Task<void> rank_main(runtime::Runtime& rt, const LinkMeasurement& what, int meeting, int rank,
                     const RankBody& body, Status& status) {
  net::ConnectOptions options;
  options.rank = rank;
  options.world = 2;
  options.rendezvous = what.dirs[static_cast<std::size_t>(meeting)];
  Result<std::unique_ptr<net::Transport>> transport =
      co_await net::connect_transport(rt, what.transport, options);
  status = transport.status();
  if (!status.ok()) co_return;
  std::unique_ptr<net::Transport> connected = std::move(*transport);
  status = co_await body(rt, std::move(connected), rank);
}

}  // namespace

Status run_pair(const LinkMeasurement& what, int meeting, TimeNs spin_ns, const RankBody& body) {
  const auto fabric = runtime::make_fabric();
  Status status[2];
  std::vector<std::function<void()>> bodies;
  for (int rank = 0; rank < 2; ++rank)
    bodies.emplace_back([&, rank] {
      runtime::RealOptions real;
      real.name = fmt::format("calibrate {}", rank);
      real.compute_threads = 1;
      real.spin_ns = spin_ns;
      real.fabric = fabric;
      const auto rt = runtime::make_real_runtime(real);
      rt->run(rank_main(*rt, what, meeting, rank, body, status[rank]));
    });
  runtime::run_in_threads(std::move(bodies));
  return status[0].ok() ? status[1] : status[0];
}

Repeats summarise_repeats(std::vector<double> values) {
  if (values.empty()) return {};
  std::sort(values.begin(), values.end());
  const auto at = [&](double fraction) {
    const double place = fraction * static_cast<double>(values.size() - 1);
    const auto low = static_cast<std::size_t>(place);
    const std::size_t high = std::min(low + 1, values.size() - 1);
    return values[low] + (place - static_cast<double>(low)) * (values[high] - values[low]);
  };
  const double median = at(0.5);
  return {median, median > 0 ? (at(0.75) - at(0.25)) / median : 0};
}

Result<cost::TransportCalibration> measure_link(const LinkMeasurement& what) {
  const Effort effort = effort_of(what.quick);
  Found spinning;
  for (int meeting = 0; meeting < kMeetings; ++meeting) {
    TR_ASSIGN_OR_RETURN(Found found, ping_pongs(what, effort, meeting, kLongSpin));
    if (meeting == 0)
      spinning = std::move(found);
    else
      take_better(spinning, found);
  }
  Effort small = effort;
  small.sizes = {kSmall};
  TR_ASSIGN_OR_RETURN(const Found blocking, ping_pongs(what, small, kMeetings, /*spin_ns=*/0));
  TR_ASSIGN_OR_RETURN(const cost::LineFit fit, cost::fit_line(spinning.sizes));

  cost::TransportCalibration t;
  t.transport = what.transport;
  // What follows back to back cannot take longer than what goes alone.
  const double overhead = std::min(spinning.overhead_seconds, fit.fixed);
  t.link.message_overhead_ns = from_seconds(overhead);
  t.link.latency_ns = from_seconds(fit.fixed - overhead);
  // Beyond what can be resolved: as fast as the fastest message.
  t.link.bytes_per_second =
      fit.per_byte > 0 ? 1 / fit.per_byte
                       : static_cast<double>(spinning.sizes.back().bytes) / spinning.sizes.back().seconds;
  t.blocking_latency_ns = std::max(t.link.latency_ns, from_seconds(blocking.sizes[0].seconds - overhead));
  t.peer_bytes_per_second = spinning.peer_bytes_per_second;
  t.fit_error = fit.median_error;
  std::vector<double> spreads;
  for (const cost::TimedSize& s : spinning.sizes) spreads.push_back(s.spread);
  t.spread = summarise_repeats(spreads).median;
  t.measured = spinning.sizes;
  return t;
}

}  // namespace trireme::measure
