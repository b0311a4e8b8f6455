// The tcp transport beside bare sockets on loopback: round trips and one-way streams, alternating, so that a
// busy machine disturbs both sides alike. usage: bench_tcp [ROUNDS [BYTES...]]
//
// Bare: two threads, one connection, TCP_NODELAY; `blocking` waits in recv(), `spinning` asks again and again
// as the transport's loop does at first. Times are medians over rounds of the mean round trip; ratios are of
// these.
#include <fmt/format.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <thread>
#include <vector>

#include "trireme/net/factory.h"
#include "trireme/runtime/real/real_runtime.h"
#include "trireme/runtime/sync.h"

namespace trireme {
namespace {

using Clock = std::chrono::steady_clock;
double us_since(Clock::time_point start) {
  return std::chrono::duration<double, std::micro>(Clock::now() - start).count();
}
// The two sides on two cores: where the kernel would put them is a matter of luck.
void pin(int core) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(static_cast<unsigned>(core) % std::max(1U, std::thread::hardware_concurrency()), &set);
  pthread_setaffinity_np(pthread_self(), sizeof set, &set);
}

int calls_for(std::size_t bytes) { return bytes <= 4096 ? 500 : bytes <= (1U << 20) ? 60 : 6; }

// ---- Bare sockets

struct Pair {
  int ends[2];
};

Pair connect_bare() {
  const int listener = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in at{};
  at.sin_family = AF_INET;
  at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof at;
  Pair pair{};
  if (bind(listener, reinterpret_cast<sockaddr*>(&at), size) != 0 || listen(listener, 1) != 0 ||
      getsockname(listener, reinterpret_cast<sockaddr*>(&at), &size) != 0)
    std::abort();
  pair.ends[0] = socket(AF_INET, SOCK_STREAM, 0);
  if (connect(pair.ends[0], reinterpret_cast<sockaddr*>(&at), size) != 0) std::abort();
  pair.ends[1] = accept(listener, nullptr, nullptr);
  close(listener);
  const int on = 1;
  for (const int end : pair.ends) setsockopt(end, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  return pair;
}

// Both ends may send at once, so that a large message does not fill the buffers of both.
void send_all(int fd, const std::byte* data, std::size_t bytes) {
  while (bytes > 0) {
    const ssize_t put = send(fd, data, bytes, 0);
    if (put <= 0) std::abort();
    data += put;
    bytes -= static_cast<std::size_t>(put);
  }
}

void receive_all(int fd, std::byte* data, std::size_t bytes, bool spin) {
  while (bytes > 0) {
    const ssize_t got = recv(fd, data, bytes, spin ? MSG_DONTWAIT : 0);
    if (got < 0 && errno == EAGAIN) continue;
    if (got <= 0) std::abort();
    data += got;
    bytes -= static_cast<std::size_t>(got);
  }
}

double bare_round_trip_us(std::size_t bytes, bool spin) {
  const Pair pair = connect_bare();
  const int calls = calls_for(bytes);
  std::thread echo([&] {
    pin(1);
    std::vector<std::byte> buffer(bytes);
    for (int i = 0; i < calls + 1; ++i) {
      receive_all(pair.ends[1], buffer.data(), bytes, spin);
      send_all(pair.ends[1], buffer.data(), bytes);
    }
  });
  std::vector<std::byte> buffer(bytes);
  Clock::time_point start;
  for (int i = 0; i < calls + 1; ++i) {
    if (i == 1) start = Clock::now();
    send_all(pair.ends[0], buffer.data(), bytes);
    receive_all(pair.ends[0], buffer.data(), bytes, spin);
  }
  const double us = us_since(start) / calls;
  echo.join();
  for (const int end : pair.ends) close(end);
  return us;
}

// ---- The transport

class Waiter final : public net::Completion {
 public:
  explicit Waiter(runtime::Runtime& rt) : rt_(rt) {}
  void on_complete(std::uint64_t, const Status& status) override {
    if (!status.ok()) std::abort();
    ++done_;
    if (shot_ != nullptr && done_ >= wanted_) shot_->set(true);
  }
  runtime::Task<void> until(std::uint64_t count) {
    wanted_ = count;
    if (done_ >= count) co_return;
    runtime::OneShot<bool> shot(rt_);
    shot_ = &shot;
    co_await shot.wait_until(kForever);
    shot_ = nullptr;
  }

 private:
  runtime::Runtime& rt_;
  std::uint64_t done_ = 0, wanted_ = 0;
  runtime::OneShot<bool>* shot_ = nullptr;
};

runtime::Task<void> ping_pong(runtime::Runtime& rt, int rank, std::string where, std::size_t bytes,
                              double* us) {
  net::ConnectOptions options;
  options.rank = rank;
  options.world = 2;
  options.rendezvous = where;
  auto connected = co_await net::connect_transport(rt, "tcp", options);
  if (!connected.ok()) std::abort();
  net::Transport& transport = **connected;
  const int calls = calls_for(bytes), other = 1 - rank;
  Bytes buffer(bytes);
  const net::View view{buffer.data(), bytes};
  Waiter sent(rt), received(rt);
  Clock::time_point start;
  for (int i = 0; i < calls + 1; ++i) {
    if (i == 1) start = Clock::now();
    const net::Identity id{
        .epoch = 1, .group = 0, .slot = 0, .step = static_cast<std::uint32_t>(i), .part = 0};
    if (rank == 0) transport.send(other, id, {}, view, &sent, 0);
    transport.recv(other, id, {}, view, &received, 0);
    co_await received.until(static_cast<std::uint64_t>(i) + 1);
    if (rank == 1) transport.send(other, id, {}, view, &sent, 0);
  }
  if (rank == 0) *us = us_since(start) / calls;
  co_await sent.until(static_cast<std::uint64_t>(calls) + 1);
}

double transport_round_trip_us(std::size_t bytes) {
  std::string where = (std::filesystem::temp_directory_path() / "bench-tcp-XXXXXX").string();
  if (mkdtemp(where.data()) == nullptr) std::abort();
  double us = 0;
  std::vector<std::function<void()>> threads;
  for (int rank = 0; rank < 2; ++rank)
    threads.emplace_back([&, rank] {
      pin(rank);
      runtime::RealOptions options;
      options.compute_threads = 1;
      const auto rt = runtime::make_real_runtime(options);
      rt->run(ping_pong(*rt, rank, where, bytes, &us));
    });
  runtime::run_in_threads(std::move(threads));
  std::filesystem::remove_all(where);
  return us;
}

double median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2),
                   values.end());
  return values[values.size() / 2];
}

int run(int rounds, const std::vector<std::size_t>& sizes) {
  pin(0);
  std::printf("%10s %12s %12s %12s %10s %10s   round trip on loopback\n", "bytes", "blocking us",
              "spinning us", "tcp us", "/blocking", "/spinning");
  for (const std::size_t bytes : sizes) {
    std::vector<double> blocking, spinning, ours;
    for (int round = 0; round < rounds; ++round) {
      blocking.push_back(bare_round_trip_us(bytes, false));
      ours.push_back(transport_round_trip_us(bytes));
      spinning.push_back(bare_round_trip_us(bytes, true));
    }
    const double b = median(blocking), s = median(spinning), o = median(ours);
    std::printf("%10zu %12.1f %12.1f %12.1f %9.2fx %9.2fx\n", bytes, b, s, o, o / b, o / s);
    std::fflush(stdout);
  }
  return 0;
}

}  // namespace
}  // namespace trireme

int main(int argc, char** argv) {
  const int rounds = argc > 1 ? std::atoi(argv[1]) : 7;
  std::vector<std::size_t> sizes;
  for (int i = 2; i < argc; ++i) sizes.push_back(std::strtoull(argv[i], nullptr, 10));
  if (rounds < 1) {
    std::fprintf(stderr, "usage: bench_tcp [ROUNDS [BYTES...]]\n");
    return 2;
  }
  if (sizes.empty()) sizes = {8, 1024, 16384, 262144, 4194304, 16777216};
  return trireme::run(rounds, sizes);
}
