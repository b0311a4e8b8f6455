#include "trireme/net/rendezvous.h"

#include <algorithm>
#include <optional>

#include "trireme/base/hash.h"
#include "trireme/runtime/files.h"
#include "trireme/runtime/sync.h"

namespace trireme::net {
namespace {

using runtime::HostPort;
using runtime::Runtime;
using runtime::Stream;
using runtime::Task;

// A setup message is small: a connection that stalls longer is not one of ours.
constexpr TimeNs kPatience = 5 * kSecond;
constexpr TimeNs kAcceptSlice = 50 * kMilli;
constexpr TimeNs kRetryPause = 20 * kMilli;
// Between questions about a name that nobody knows yet: containers and pods come before their names.
constexpr TimeNs kNamePause = 250 * kMilli;
// What the ranks wait beyond their deadline for rank 0 to say who is missing.
constexpr TimeNs kVerdictGrace = 2 * kSecond;

std::string file_of(const ConnectOptions& options) { return options.rendezvous + "/coordinator"; }

bool is_any(const std::string& host) { return host == "0.0.0.0" || host == "::"; }
bool is_loopback(const std::string& host) {
  return host == "localhost" || host == "::1" || host.rfind("127.", 0) == 0;
}

std::string join_ranks(const std::vector<int>& ranks) {
  std::string out;
  for (const int rank : ranks) out += fmt::format("{}{}", out.empty() ? "" : ", ", rank);
  return out;
}

// ---- Rank 0

struct Assembly {
  Assembly(Runtime& r, ConnectOptions o)
      : rt(r), options(std::move(o)), deadline(r.now() + options.deadline), all_here(r) {
    addresses.resize(static_cast<std::size_t>(options.world));
    streams.resize(static_cast<std::size_t>(options.world));
  }
  Runtime& rt;
  const ConnectOptions options;
  const TimeNs deadline;
  std::unique_ptr<runtime::Listener> listener;
  std::vector<std::optional<HostPort>> addresses;
  std::vector<std::shared_ptr<Stream>> streams;
  runtime::OneShot<bool> all_here;
  Status last_refusal;
  bool finished = false;

  std::vector<int> missing() const {
    std::vector<int> out;
    for (int rank = 0; rank < options.world; ++rank)
      if (!addresses[static_cast<std::size_t>(rank)]) out.push_back(rank);
    return out;
  }
  Status admit(const JoinMessage& join) {
    TR_RETURN_IF_ERROR(check_same_job(join.who, job_rank_of(options), listener->address().to_string()));
    if (join.who.rank == 0 || addresses[join.who.rank])
      return error(Code::kExists,
                   "[net] rank {} is here already: two processes have the same rank; fix the launch",
                   join.who.rank);
    addresses[join.who.rank] = join.address;
    return {};
  }
};

// One connection to the coordinator: it joins or is refused. A rank that goes away again before all are here
// is missing again.
Task<void> receive_rank(std::shared_ptr<Assembly> a, std::shared_ptr<Stream> stream) {
  const TimeNs deadline = std::min(a->deadline, a->rt.now() + kPatience);
  auto payload = co_await read_setup(*stream, FrameType::kJoin, deadline);
  Status status = payload.status();
  JoinMessage join;
  if (status.ok()) {
    auto parsed = parse_join(*payload);
    status = parsed.status();
    if (parsed.ok()) {
      join = *parsed;
      if (!a->finished) status = a->admit(join);
    }
  }
  if (a->finished) co_return;
  if (!status.ok()) {
    a->last_refusal = status;
    Bytes refusal = encode_refusal(status);
    (void)co_await write_setup(*stream, FrameType::kRefusal, std::move(refusal), deadline);
    co_return;
  }
  a->streams[join.who.rank] = stream;
  if (a->missing().empty()) a->all_here.set(true);
  std::byte scratch{};
  const MutByteView into(&scratch, 1);
  (void)co_await stream->read_some(into, a->deadline + kVerdictGrace);
  if (a->finished || a->streams[join.who.rank] != stream) co_return;
  a->streams[join.who.rank] = nullptr;
  a->addresses[join.who.rank].reset();
}

Task<void> receive_ranks(std::shared_ptr<Assembly> a) {
  while (!a->finished) {
    const TimeNs slice = std::min(a->deadline, a->rt.now() + kAcceptSlice);
    auto stream = co_await a->listener->accept(slice);
    if (stream.ok()) {
      a->rt.spawn(receive_rank(a, std::shared_ptr<Stream>(std::move(stream).value())));
    } else if (stream.status().code() != Code::kDeadline) {
      a->last_refusal = stream.status();
      co_await a->rt.sleep_for(kRetryPause);  // e.g. no descriptors left for a moment
    }
    if (a->rt.now() >= a->deadline) co_return;
  }
}

// Where rank 0 listens for the others, and what its own mesh address is.
Task<Status> open_coordinator(std::shared_ptr<Assembly> a) {
  const ConnectOptions& options = a->options;
  HostPort at{options.bind.empty() ? "127.0.0.1" : options.bind, 0};
  std::string reached_by = at.host;
  if (!options.coordinator.empty()) {
    auto given = runtime::parse_host_port(options.coordinator);
    if (!given.ok()) co_return given.status();
    at.port = given->port;
    reached_by = given->host;
    if (options.bind.empty()) at.host = given->host;
  }
  if (is_any(reached_by))
    co_return error(
        Code::kInvalid,
        "[net] rank 0 has no address that others can use: got bind '{}' without a coordinator; give "
        "the coordinator as host:port",
        options.bind);
  auto listener = a->rt.network().listen_tcp(at, options.insecure);
  while (listener.status().code() == Code::kNotFound && a->rt.now() < a->deadline) {
    co_await a->rt.sleep_until(std::min(a->deadline, a->rt.now() + kNamePause));
    listener = a->rt.network().listen_tcp(at, options.insecure);
  }
  if (!listener.ok()) co_return listener.status();
  a->listener = std::move(listener).value();
  if (options.coordinator.empty()) {
    const std::string text = HostPort{reached_by, a->listener->address().port}.to_string();
    const ByteView bytes = as_bytes(text);
    TR_CO_RETURN_IF_ERROR(co_await a->rt.files().write_atomic(file_of(options), bytes));
  }
  a->addresses[0] = HostPort{reached_by, 0};  // the port comes with the mesh listener
  co_return Status();
}

Status not_all_came(const Assembly& a) {
  const std::string why =
      a.last_refusal.ok() ? "" : fmt::format(" (last refused: {})", a.last_refusal.message());
  return error(
      Code::kDeadline,
      "[net] ranks {} did not come to '{}' within {}: got {} of {} ranks{}; see the logs of those ranks",
      join_ranks(a.missing()),
      a.options.coordinator.empty() ? a.listener->address().to_string() : a.options.coordinator,
      format_duration(a.options.deadline), a.options.world - static_cast<int>(a.missing().size()),
      a.options.world, why);
}

Task<Result<Met>> coordinate(Runtime& rt, ConnectOptions options) {
  auto a = std::make_shared<Assembly>(rt, std::move(options));
  struct Finish {
    Assembly& assembly;
    ~Finish() { assembly.finished = true; }
  } const finish{*a};
  TR_CO_RETURN_IF_ERROR(co_await open_coordinator(a));
  Met met;
  const HostPort own{a->options.bind.empty() ? a->addresses[0]->host : a->options.bind, 0};
  auto listener = rt.network().listen_tcp(own, a->options.insecure);
  if (!listener.ok()) co_return listener.status();
  met.listener = std::move(listener).value();
  a->addresses[0]->port = met.listener->address().port;
  rt.spawn(receive_ranks(a));
  (void)co_await a->all_here.wait_until(a->deadline);
  const bool complete = a->missing().empty();
  const Status failure = complete ? Status() : not_all_came(*a);
  a->finished = true;
  for (const auto& address : a->addresses) met.addresses.push_back(address ? *address : HostPort{});
  const TimeNs deadline = rt.now() + kPatience;
  for (const auto& stream : a->streams) {
    if (!stream) continue;
    Bytes answer = complete ? encode(met.addresses) : encode_refusal(failure);
    const FrameType type = complete ? FrameType::kTable : FrameType::kRefusal;
    // A rank that is gone by now is found when the mesh is made.
    (void)co_await write_setup(*stream, type, std::move(answer), deadline);
  }
  if (a->options.coordinator.empty()) (void)co_await rt.files().remove_all(file_of(a->options));
  if (!complete) co_return failure;
  co_return std::move(met);
}

// ---- The other ranks

// The address in the file, once rank 0 has written it.
Task<Result<HostPort>> read_coordinator_file(Runtime& rt, std::string path, TimeNs deadline) {
  for (;;) {
    auto there = co_await rt.files().exists(path);
    if (there.ok() && *there) {
      auto bytes = co_await rt.files().read(path);
      if (bytes.ok()) co_return runtime::parse_host_port(as_text(*bytes));
    }
    if (rt.now() >= deadline)
      co_return error(Code::kDeadline, "[net] no coordinator address in '{}'; is rank 0 running?", path);
    co_await rt.sleep_until(std::min(deadline, rt.now() + kRetryPause));
  }
}

// One visit to the coordinator.
Task<Status> join_once(Runtime& rt, const ConnectOptions& options, HostPort at, TimeNs connect_deadline,
                       TimeNs deadline, Met& met) {
  auto connected = co_await rt.network().connect_tcp(at, connect_deadline);
  if (!connected.ok()) co_return connected.status();
  const std::unique_ptr<Stream> stream = std::move(connected).value();
  const std::string local = stream->local_address().host;
  // Where the coordinator's name means loopback here, this rank is beside rank 0: ranks elsewhere reach both
  // by that name, and neither by a loopback address.
  const bool beside = options.insecure && options.bind.empty() && is_loopback(local) && !is_loopback(at.host);
  const std::string any = local.find(':') == std::string::npos ? "0.0.0.0" : "::";
  HostPort own{!options.bind.empty() ? options.bind : beside ? any : local, 0};
  auto listener = rt.network().listen_tcp(own, options.insecure);
  if (!listener.ok()) co_return listener.status();
  met.listener = std::move(listener).value();
  own = met.listener->address();
  if (is_any(own.host)) own.host = beside ? at.host : local;
  JoinMessage join{job_rank_of(options), own};
  Bytes payload = encode(join);
  TR_CO_RETURN_IF_ERROR(co_await write_setup(*stream, FrameType::kJoin, std::move(payload), deadline));
  auto answer = co_await read_setup(*stream, FrameType::kTable, deadline + kVerdictGrace);
  if (!answer.ok()) co_return answer.status();
  auto table = parse_table(*answer);
  if (!table.ok()) co_return table.status();
  if (table->size() != static_cast<std::size_t>(options.world))
    co_return error(Code::kCorrupt, "[net] the coordinator's table: got {} ranks, expected {}", table->size(),
                    options.world);
  met.addresses = std::move(*table);
  co_return Status();
}

Task<Result<Met>> join(Runtime& rt, ConnectOptions options) {
  const TimeNs deadline = rt.now() + options.deadline;
  const bool by_file = options.coordinator.empty();
  Status last;
  do {
    HostPort at;
    auto found = by_file ? Result<HostPort>(at) : runtime::parse_host_port(options.coordinator);
    if (by_file) found = co_await read_coordinator_file(rt, file_of(options), deadline);
    if (!found.ok()) co_return found.status();
    at = *found;
    if (!options.insecure && !is_loopback(at.host))
      co_return error(Code::kUnavailable,
                      "[net] refused the coordinator '{}' beyond this host: nothing is encrypted or "
                      "authenticated; use a loopback address, or say --insecure on a network you trust",
                      at.to_string());
    // The file may be one of an earlier run: look again soon.
    const TimeNs connect_deadline = by_file ? std::min(deadline, rt.now() + 10 * kRetryPause) : deadline;
    Met met;
    last = co_await join_once(rt, options, at, connect_deadline, deadline, met);
    if (last.ok()) co_return std::move(met);
    const bool unknown = !by_file && last.code() == Code::kNotFound;
    const bool may_come = last.code() == Code::kPeerLost || last.code() == Code::kDeadline || unknown ||
                          (by_file && last.code() == Code::kCorrupt);
    if (!may_come || last.context().reason == kRefusedReason) co_return last;
    co_await rt.sleep_until(std::min(deadline, rt.now() + (unknown ? kNamePause : kRetryPause)));
  } while (rt.now() < deadline);
  co_return error(Code::kDeadline,
                  "[net] rank {} found no coordinator at '{}' within {}: {}; is rank 0 running there?",
                  options.rank, by_file ? file_of(options) : options.coordinator,
                  format_duration(options.deadline), last.message());
}

}  // namespace

JobRank job_rank_of(const ConnectOptions& options) {
  return {.job = options.job.empty() ? 0 : hash_text(options.job),
          .world = static_cast<std::uint32_t>(options.world),
          .rank = static_cast<std::uint32_t>(options.rank),
          .epoch = options.epoch};
}

Task<Result<Met>> meet(Runtime& rt, ConnectOptions options) {
  if (options.world == 1) {
    Met alone;
    alone.addresses.resize(1);
    co_return std::move(alone);
  }
  if (options.coordinator.empty() && options.rendezvous.empty())
    co_return error(Code::kInvalid,
                    "[net] tcp needs a place to meet: got neither a coordinator address nor a rendezvous "
                    "directory; give the coordinator as host:port");
  if (options.rank == 0) co_return co_await coordinate(rt, std::move(options));
  co_return co_await join(rt, std::move(options));
}

}  // namespace trireme::net
