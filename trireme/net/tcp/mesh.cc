#include "trireme/net/tcp/mesh.h"

#include <algorithm>

#include "trireme/runtime/sync.h"

namespace trireme::net::tcp {
namespace {

using runtime::Runtime;
using runtime::Stream;
using runtime::Task;

constexpr TimeNs kPatience = 5 * kSecond;  // for one hello
constexpr TimeNs kAcceptSlice = 50 * kMilli;

struct Mesh {
  Mesh(Runtime& r, ConnectOptions o, Met m, TimeNs d)
      : rt(r),
        options(std::move(o)),
        met(std::move(m)),
        deadline(d),
        peers(static_cast<std::size_t>(options.world)),
        all_accepted(r),
        missing((options.world - 1 - options.rank) * static_cast<int>(kNumChannels)) {}
  Runtime& rt;
  const ConnectOptions options;
  Met met;
  const TimeNs deadline;
  std::vector<PeerStreams> peers;
  runtime::OneShot<bool> all_accepted;
  int missing;  // connections that higher ranks still have to make
  Status last_refusal;
  bool finished = false;

  HelloMessage hello(std::uint32_t channel) const { return {job_rank_of(options), channel}; }
  // A higher rank says hello: is it one of ours, and the first on its channel?
  Status check(const HelloMessage& got) const {
    TR_RETURN_IF_ERROR(check_same_job(got.who, job_rank_of(options), met.listener->address().to_string()));
    if (static_cast<int>(got.who.rank) <= options.rank || got.channel >= kNumChannels)
      return error(Code::kMismatch,
                   "[net] rank {} got a hello of rank {}, channel {}: expected a higher rank", options.rank,
                   got.who.rank, got.channel);
    if (peers[got.who.rank].channels[got.channel])
      return error(Code::kExists,
                   "[net] rank {} is connected already: two processes have the same rank; fix the launch",
                   got.who.rank);
    return {};
  }
};

Task<void> receive_hello(std::shared_ptr<Mesh> m, std::unique_ptr<Stream> stream) {
  const TimeNs deadline = std::min(m->deadline, m->rt.now() + kPatience);
  auto payload = co_await read_setup(*stream, FrameType::kHello, deadline);
  if (m->finished) co_return;
  Result<HelloMessage> hello = payload.ok() ? parse_hello(*payload) : Result<HelloMessage>(payload.status());
  const Status status = hello.ok() ? m->check(*hello) : hello.status();
  if (!status.ok()) {
    m->last_refusal = status;
    Bytes refusal = encode_refusal(status);
    (void)co_await write_setup(*stream, FrameType::kRefusal, std::move(refusal), deadline);
    co_return;
  }
  auto& place = m->peers[hello->who.rank].channels[hello->channel];
  place = std::move(stream);  // taken before anything is awaited: a second one is refused
  Stream& kept = *place;
  Bytes answer = encode(m->hello(hello->channel));
  const Status written = co_await write_setup(kept, FrameType::kHello, std::move(answer), deadline);
  if (m->finished) co_return;
  if (!written.ok()) {
    m->last_refusal = written;
    place.reset();
    co_return;
  }
  if (--m->missing == 0) m->all_accepted.set(true);
}

Task<void> receive_hellos(std::shared_ptr<Mesh> m) {
  while (!m->finished && m->rt.now() < m->deadline) {
    const TimeNs slice = std::min(m->deadline, m->rt.now() + kAcceptSlice);
    auto stream = co_await m->met.listener->accept(slice);
    if (stream.ok()) {
      m->rt.spawn(receive_hello(m, std::move(stream).value()));
    } else if (stream.status().code() != Code::kDeadline) {
      m->last_refusal = stream.status();
      co_await m->rt.sleep_for(kAcceptSlice);
    }
  }
}

// The table says where the lower rank listens: whatever is wrong here is wrong for good.
Task<Status> connect_to(Mesh& m, int peer, std::uint32_t channel) {
  const auto rank = static_cast<std::size_t>(peer);
  auto stream = co_await m.rt.network().connect_tcp(m.met.addresses[rank], m.deadline);
  if (!stream.ok()) co_return stream.status();
  Bytes hello = encode(m.hello(channel));
  TR_CO_RETURN_IF_ERROR(co_await write_setup(**stream, FrameType::kHello, std::move(hello), m.deadline));
  auto payload = co_await read_setup(**stream, FrameType::kHello, m.deadline);
  if (!payload.ok()) co_return payload.status();
  auto answer = parse_hello(*payload);
  if (!answer.ok()) co_return answer.status();
  const std::string where = m.met.addresses[rank].to_string();
  TR_CO_RETURN_IF_ERROR(check_same_job(answer->who, job_rank_of(m.options), where));
  if (answer->who.rank != rank || answer->channel != channel)
    co_return error(Code::kMismatch, "[net] another rank answered at '{}': got {}, expected {}", where,
                    answer->who.rank, peer);
  m.peers[rank].channels[channel] = std::move(stream).value();
  co_return Status();
}

Status missing_ranks(const Mesh& m, const Status& status) {
  std::string missing;
  for (int rank = 0; rank < m.options.world; ++rank) {
    const PeerStreams& peer = m.peers[static_cast<std::size_t>(rank)];
    const bool here = std::all_of(std::begin(peer.channels), std::end(peer.channels),
                                  [](const auto& stream) { return stream != nullptr; });
    if (rank != m.options.rank && !here) missing += fmt::format("{}{}", missing.empty() ? "" : ", ", rank);
  }
  const Status& why = m.last_refusal.ok() ? status : m.last_refusal;
  return error(Code::kDeadline,
               "[net] rank {} got no connection with ranks {} within {}: {}; see the logs of those ranks",
               m.options.rank, missing, format_duration(m.options.deadline),
               why.ok() ? "they did not connect" : why.message());
}

}  // namespace

Task<Result<std::vector<PeerStreams>>> connect_mesh(Runtime& rt, ConnectOptions options, Met met,
                                                    TimeNs deadline) {
  auto m = std::make_shared<Mesh>(rt, std::move(options), std::move(met), deadline);
  struct Finish {
    Mesh& mesh;
    ~Finish() { mesh.finished = true; }
  } const finish{*m};
  const bool accepts = m->missing > 0;
  if (accepts) rt.spawn(receive_hellos(m));
  std::vector<Task<Status>> tasks;
  for (int peer = 0; peer < m->options.rank; ++peer)
    for (std::uint32_t channel = 0; channel < kNumChannels; ++channel)
      tasks.push_back(connect_to(*m, peer, channel));
  const Status status = co_await when_all(rt, std::move(tasks));
  if (!status.ok() && status.code() != Code::kDeadline && status.code() != Code::kPeerLost) co_return status;
  if (!status.ok()) co_return missing_ranks(*m, status);
  if (accepts) {
    if (!co_await m->all_accepted.wait_until(deadline)) co_return missing_ranks(*m, Status());
  }
  co_return std::move(m->peers);
}

}  // namespace trireme::net::tcp
