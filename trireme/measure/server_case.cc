#include "trireme/measure/server_case.h"

#include <algorithm>

#include "trireme/comm/group.h"
#include "trireme/comm/letter_kinds.h"
#include "trireme/measure/link.h"
#include "trireme/net/factory.h"
#include "trireme/runtime/real/real_runtime.h"
#include "trireme/runtime/sync.h"
#include "trireme/server/client.h"
#include "trireme/server/server.h"

namespace trireme::measure {
namespace {

using runtime::Task;

constexpr TimeNs kDeadline = 120 * kSecond;
// To servers: this worker pushes no more.
struct BenchDoneHead {
  static constexpr std::uint16_t kKind = comm::kLetterUserFirst;
  static constexpr auto kFields = comm::head_fields();
};

// What the ranks of a case share.
struct Play {
  const ServerCase& setup;
  std::vector<server::Key> keys;
  server::ServerLayout layout;
  std::vector<double> round_us;  // per repeat, of worker 0
  std::int64_t rounds = 0;
};

class BenchWorker {
 public:
  BenchWorker(runtime::Runtime& rt, comm::Group& group, comm::Group& workers, Play& play)
      : rt_(rt), workers_(workers), play_(play) {
    std::vector<int> ranks;
    for (int s = 0; s < play.setup.servers; ++s) ranks.push_back(play.setup.workers + s);
    client_ = server::make_client(rt, group.mailbox(), ranks, play.layout, play.keys);
  }

  Task<Status> run() {
    const auto elems = static_cast<std::int64_t>(play_.setup.bytes / sizeof(float));
    for (int s = 0; s < play_.setup.servers; ++s) {
      const auto bytes = std::vector<float>(static_cast<std::size_t>(elems), 1.0F);
      values_.push_back(Tensor::from<float>(bytes, {elems}));
      into_.push_back(Tensor::from<float>(bytes, {elems}));
    }
    for (std::uint32_t k = 0; workers_.rank() == 0 && k < values_.size(); ++k)
      TR_CO_RETURN_IF_ERROR(co_await client_->init(k, values_[k]));
    // How many rounds fill the time, as worker 0 sees it.
    TR_CO_ASSIGN_OR_RETURN(const TimeNs first, co_await timed(2));
    TR_CO_ASSIGN_OR_RETURN(const TimeNs again, co_await timed(4));
    TR_CO_ASSIGN_OR_RETURN(const Tensor count, Tensor::allocate(cpu_device(), {DType::kI64, {1}}));
    const double one = to_seconds(std::min(first / 2, again / 4));
    *count.data<std::int64_t>() =
        std::clamp(static_cast<std::int64_t>(play_.setup.seconds / std::max(one, 1e-9)), std::int64_t{4},
                   std::int64_t{100'000});
    comm::Call call;
    call.step = ++step_;
    call.slot = 1;
    call.label = "bench server";
    TR_CO_RETURN_IF_ERROR(co_await workers_.broadcast(std::move(call), count));
    const std::int64_t rounds = *count.data<std::int64_t>();
    for (int i = 0; i < play_.setup.repeats; ++i) {
      TR_CO_ASSIGN_OR_RETURN(const TimeNs took, co_await timed(rounds));
      if (workers_.rank() != 0) continue;
      play_.round_us.push_back(to_seconds(took) * 1e6 / static_cast<double>(rounds));
      play_.rounds += rounds;
    }
    co_return co_await check();
  }

 private:
  // All workers start together; ends when all have.
  Task<Result<TimeNs>> timed(std::int64_t rounds) {
    TR_CO_RETURN_IF_ERROR(co_await meet());
    const TimeNs start = rt_.now();
    for (std::int64_t i = 0; i < rounds; ++i) TR_CO_RETURN_IF_ERROR(co_await round());
    TR_CO_RETURN_IF_ERROR(co_await meet());
    co_return rt_.now() - start;
  }

  Task<Status> meet() {
    comm::Call call;
    call.step = ++step_;
    call.slot = 1;
    call.label = "bench server";
    co_return co_await workers_.barrier(std::move(call));
  }

  Task<Status> round() {
    server::PushNote note;
    note.clock = clock_++;
    std::vector<Task<Status>> pushes, pulls;
    for (std::uint32_t k = 0; k < values_.size(); ++k) {
      pushes.push_back(client_->push(k, values_[k], note));
      pulls.push_back(pull(k));
    }
    TR_CO_RETURN_IF_ERROR(co_await runtime::when_all(rt_, std::move(pushes)));
    co_return co_await runtime::when_all(rt_, std::move(pulls));
  }

  Task<Status> pull(std::uint32_t key) {
    const Result<server::Version> read = co_await client_->pull(key, into_[key], clock_);
    co_return read.status();
  }

  // Everybody's ones are in: 1 at first, and one per worker and round.
  Task<Status> check() {
    TR_CO_RETURN_IF_ERROR(co_await meet());
    for (std::uint32_t k = 0; k < into_.size(); ++k) {
      TR_CO_RETURN_IF_ERROR(co_await pull(k));
      const double expected = 1 + static_cast<double>(clock_) * play_.setup.workers;
      for (const float v : into_[k].values<float>())
        if (expected < 16'777'216 && static_cast<double>(v) != expected)
          co_return error(Code::kInternal,
                          "[bench] a server has {}: expected {} after {} rounds of {} workers", v, expected,
                          clock_, play_.setup.workers);
    }
    co_return Status();
  }

  runtime::Runtime& rt_;
  comm::Group& workers_;
  Play& play_;
  std::unique_ptr<server::Client> client_;
  std::vector<Tensor> values_, into_;
  std::int64_t clock_ = 0;
  std::uint32_t step_ = 0;
};

Task<Status> work(runtime::Runtime& rt, comm::Group& group, Play& play) {
  std::vector<int> ranks;
  for (int w = 0; w < play.setup.workers; ++w) ranks.push_back(w);
  auto workers = group.subgroup(ranks, 1);
  if (!workers.ok()) co_return workers.status();
  BenchWorker worker(rt, group, **workers, play);
  TR_CO_RETURN_IF_ERROR(co_await worker.run());
  const BenchDoneHead done;
  for (int s = 0; s < play.setup.servers; ++s)
    TR_CO_RETURN_IF_ERROR(co_await group.mailbox().send(play.setup.workers + s, done, {}));
  co_return Status();
}

Task<Status> serve(runtime::Runtime& rt, comm::Group& group, Play& play) {
  int workers_left = play.setup.workers;
  runtime::OneShot<bool> over(rt);
  comm::Mailbox::Handler<BenchDoneHead> on_done;
  on_done.arrived = [&](int, const comm::Letter<BenchDoneHead>&) {
    if (--workers_left == 0) over.set(true);
  };
  group.mailbox().handle(std::move(on_done));
  server::ServerOptions options;
  options.server = group.rank() - play.setup.workers;
  options.layout = play.layout;
  options.keys = play.keys;
  options.clocks.num_workers = play.setup.workers;
  auto server = server::make_server(rt, group.mailbox(), std::move(options));
  if (!server.ok()) co_return server.status();
  const bool ended = co_await over.wait_until(rt.now() + kDeadline);
  group.mailbox().stop_handling<BenchDoneHead>();
  if (!group.verdict().ok()) co_return group.verdict();
  if (!ended) co_return error(Code::kDeadline, "[bench] workers took more than two minutes");
  co_return co_await (*server)->settle();
}

Task<void> rank_main(runtime::Runtime& rt, int rank, Play& play, Status& status) {
  net::ConnectOptions connect;
  connect.rank = rank;
  connect.world = play.setup.workers + play.setup.servers;
  connect.rendezvous = play.setup.dir;
  auto transport = co_await net::connect_transport(rt, play.setup.transport, connect);
  status = transport.status();
  if (!status.ok()) co_return;
  comm::GroupOptions options;
  if (connect.world > runtime::num_cores()) options.spin_ns = 0;
  auto group = comm::make_group(rt, std::move(*transport), options);
  status = group.status();
  if (!status.ok()) co_return;
  if (rank < play.setup.workers)
    status = co_await work(rt, **group, play);
  else
    status = co_await serve(rt, **group, play);
  if (!status.ok()) (*group)->fail("bench server", status.message());
  const Status left = co_await (*group)->leave();
  if (status.ok()) status = left;
}

}  // namespace

double ServerFigures::messages_per_second() const {
  return round_us > 0 ? 2.0 * setup.workers * setup.servers * 1e6 / round_us : 0;
}

double ServerFigures::bytes_per_second() const {
  return messages_per_second() * static_cast<double>(setup.bytes);
}

double server_bound_us(const ServerCase& setup, const cost::LinkModel& link) {
  const double vector_us = static_cast<double>(setup.bytes) * 1e6 / link.bytes_per_second;
  const double latency_us = static_cast<double>(link.latency_ns) * 1e-3;
  // A link carries both directions at once; a worker's pull comes after its push, other workers' do not.
  return 2 * latency_us + std::max(2.0 * setup.servers, static_cast<double>(setup.workers) + 1) * vector_us;
}

Result<ServerFigures> measure_servers(const ServerCase& setup) {
  Play play{setup, {}, {}, {}, 0};
  const auto elems = static_cast<std::int64_t>(setup.bytes / sizeof(float));
  for (int s = 0; s < setup.servers; ++s) play.keys.push_back({fmt::format("v{}", s), elems, {}});
  TR_ASSIGN_OR_RETURN(play.layout, server::make_layout(play.keys, setup.servers, INT64_MAX));
  const auto world = static_cast<std::size_t>(setup.workers + setup.servers);
  const auto fabric = runtime::make_fabric();
  std::vector<Status> statuses(world);
  std::vector<std::function<void()>> bodies;
  for (std::size_t r = 0; r < world; ++r)
    bodies.emplace_back([&, r] {
      runtime::RealOptions real;
      real.name = fmt::format("rank {}", r);
      real.compute_threads = 1;
      if (static_cast<int>(world) > runtime::num_cores()) real.spin_ns = 0;
      real.fabric = fabric;
      const auto rt = runtime::make_real_runtime(real);
      rt->run(rank_main(*rt, static_cast<int>(r), play, statuses[r]));
    });
  runtime::run_in_threads(std::move(bodies));
  for (const Status& s : statuses)
    if (!s.ok()) return s;
  ServerFigures figures;
  figures.setup = setup;
  const Repeats repeats = summarise_repeats(play.round_us);
  figures.round_us = repeats.median;
  figures.spread = repeats.spread;
  figures.rounds = play.rounds;
  return figures;
}

}  // namespace trireme::measure
