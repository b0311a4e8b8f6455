#include "trireme/net/shm/rendezvous.h"

#include <bit>
#include <cstring>
#include <utility>

#include "trireme/net/shm/layout.h"
#include "trireme/runtime/sync.h"

namespace trireme::net::shm {
namespace {

using runtime::Task;

// One hello and two descriptors are small: a connection that stalls longer is not one of ours.
constexpr TimeNs kHandshakePatience = 5 * kSecond;
constexpr TimeNs kAcceptSlice = 100 * kMilli;

struct Meeting {
  Meeting(runtime::Runtime& r, ConnectOptions o)
      : rt(r), options(std::move(o)), started(r.now()), deadline(started + options.deadline) {}
  runtime::Runtime& rt;
  ConnectOptions options;
  TimeNs started, deadline;
  Connected connected;
  std::unique_ptr<runtime::Doorbell> bell;
  std::unique_ptr<runtime::Listener> listener;
  Status failure;       // ends the meeting early
  Status last_refusal;  // of a connection that was not ours, for the error at the deadline

  PeerLink& link(int rank) { return connected.links[static_cast<std::size_t>(rank)]; }
  std::string path(int rank) const { return fmt::format("{}/rank-{}.sock", options.rendezvous, rank); }
};

Status check_hello(const Meeting& m, const Hello& hello, int expected_rank) {
  const auto mismatch = [&](const char* what, auto got, auto expected) {
    return error(Code::kMismatch,
                 "[net] another job or version answered at '{}': got {} {}, expected {}; use a "
                 "rendezvous directory of its own for each job",
                 m.options.rendezvous, what, got, expected);
  };
  if (hello.magic != kHelloMagic) return mismatch("magic", hello.magic, kHelloMagic);
  if (hello.version != kVersion) return mismatch("version", hello.version, kVersion);
  if (hello.world != static_cast<std::uint32_t>(m.options.world))
    return mismatch("world", hello.world, m.options.world);
  if (hello.epoch != m.options.epoch) return mismatch("epoch", hello.epoch, m.options.epoch);
  if (hello.ring_bytes != m.options.ring_bytes)
    return mismatch("ring_bytes", hello.ring_bytes, m.options.ring_bytes);
  if (hello.window_bytes != m.options.window_bytes)
    return mismatch("window_bytes", hello.window_bytes, m.options.window_bytes);
  if (expected_rank >= 0 ? hello.rank != static_cast<std::uint32_t>(expected_rank)
                         : hello.rank >= hello.world || static_cast<int>(hello.rank) <= m.options.rank)
    return mismatch("rank", hello.rank, expected_rank);
  return {};
}

Status check_segment(const Meeting& m, runtime::SharedSegment& segment, int rank) {
  const std::size_t expected = segment_bytes(m.options.world, m.options.ring_bytes, m.options.window_bytes);
  if (segment.size() < expected)
    return error(Code::kCorrupt,
                 "[net] exchange segment of rank {}: got {} bytes, expected {}; restart the job", rank,
                 segment.size(), expected);
  SegmentHeader header;
  std::memcpy(&header, segment.data(), sizeof(header));
  if (header.magic != kSegmentMagic || header.version != kVersion ||
      header.rank != static_cast<std::uint32_t>(rank) ||
      header.world != static_cast<std::uint32_t>(m.options.world) || header.epoch != m.options.epoch ||
      header.ring_bytes != m.options.ring_bytes || header.window_bytes != m.options.window_bytes ||
      header.control_bytes != kControlRingBytes)
    return error(Code::kCorrupt, "[net] exchange segment of rank {}: its header is not ours; restart the job",
                 rank);
  return {};
}

// Both ends do the same: hello, check, segment and bell out, segment and bell in. Gives the peer's rank.
Task<Result<int>> shake_hands(Meeting& m, std::shared_ptr<runtime::Stream> stream, int expected_rank) {
  const TimeNs deadline = std::min(m.deadline, m.rt.now() + kHandshakePatience);
  Hello mine{.magic = kHelloMagic,
             .version = kVersion,
             .world = static_cast<std::uint32_t>(m.options.world),
             .rank = static_cast<std::uint32_t>(m.options.rank),
             .epoch = m.options.epoch,
             .ring_bytes = m.options.ring_bytes,
             .window_bytes = m.options.window_bytes};
  const ByteView mine_bytes = std::as_bytes(std::span(&mine, 1));
  TR_CO_RETURN_IF_ERROR(co_await stream->write_all(mine_bytes, deadline));
  Hello theirs{};
  const MutByteView their_bytes = std::as_writable_bytes(std::span(&theirs, 1));
  TR_CO_RETURN_IF_ERROR(co_await stream->read_exact(their_bytes, deadline));
  TR_CO_RETURN_IF_ERROR(check_hello(m, theirs, expected_rank));
  const int rank = static_cast<int>(theirs.rank);
  if (m.link(rank).stream)
    co_return error(Code::kExists,
                    "[net] rank {} is here already: two processes have the same rank; fix the launch", rank);
  TR_CO_RETURN_IF_ERROR(co_await stream->send_segment(*m.connected.segment, deadline));
  TR_CO_RETURN_IF_ERROR(co_await stream->send_doorbell(*m.bell, deadline));
  auto segment = co_await stream->receive_segment(deadline);
  if (!segment.ok()) co_return segment.status();
  TR_CO_RETURN_IF_ERROR(check_segment(m, **segment, rank));
  auto bell = co_await stream->receive_doorbell(deadline);
  if (!bell.ok()) co_return bell.status();
  PeerLink& link = m.link(rank);
  link.segment = std::move(segment).value();
  link.bell = std::move(bell).value();
  link.stream = std::move(stream);
  co_return rank;
}

// A failure here ends the whole meeting: the path belongs to the job.
Task<Status> connect_to(Meeting& m, int peer) {
  auto stream = co_await m.rt.network().connect_local(m.path(peer), m.deadline);
  if (!stream.ok()) {
    if (stream.status().code() == Code::kExhausted) m.failure = stream.status();
    co_return stream.status();
  }
  std::shared_ptr<runtime::Stream> shared = std::move(stream).value();
  auto rank = co_await shake_hands(m, shared, peer);
  if (!rank.ok()) m.failure = rank.status();
  co_return rank.status();
}

// A stranger who connects is refused and forgotten. Descriptors that this process may not have fail it.
Task<Status> accept_from_higher(Meeting& m) {
  int missing = m.options.world - 1 - m.options.rank;
  while (missing > 0 && m.failure.ok()) {
    const TimeNs slice = std::min(m.deadline, m.rt.now() + kAcceptSlice);
    auto stream = co_await m.listener->accept(slice);
    if (!stream.ok()) {
      if (stream.status().code() == Code::kExhausted) m.failure = stream.status();
      if (stream.status().code() != Code::kDeadline || m.rt.now() >= m.deadline) co_return stream.status();
      continue;
    }
    std::shared_ptr<runtime::Stream> shared = std::move(stream).value();
    auto rank = co_await shake_hands(m, shared, -1);
    if (rank.ok())
      --missing;
    else if (rank.status().code() == Code::kExhausted)
      m.failure = rank.status();
    else
      m.last_refusal = rank.status();
  }
  co_return m.failure;
}

Status missing_ranks(Meeting& m, const Status& status) {
  std::string missing;
  for (int rank = 0; rank < m.options.world; ++rank)
    if (rank != m.options.rank && !m.link(rank).stream)
      missing += fmt::format("{}{}", missing.empty() ? "" : ", ", rank);
  const Status& why = m.last_refusal.ok() ? status : m.last_refusal;
  return error(Code::kDeadline,
               "[net] rank {} waited for ranks {} for {}: got no connection ({}), expected all {} ranks "
               "at '{}'; see the logs of those ranks",
               m.options.rank, missing, format_duration(m.rt.now() - m.started), why.message(),
               m.options.world, m.options.rendezvous);
}

Status open(Meeting& m) {
  const std::size_t ring = m.options.ring_bytes;
  if (!std::has_single_bit(ring) || ring < kPage || ring > (std::size_t{1} << 30))
    return error(Code::kInvalid,
                 "[net] shm ring size: got {} bytes, expected a power of two from 4096 to 1 GiB", ring);
  const std::size_t window = m.options.window_bytes;
  if (window < kExchangeBytes || window % kPage != 0 || window > (std::size_t{1} << 40))
    return error(Code::kInvalid,
                 "[net] shm window area: got {} bytes, expected a multiple of 4096 from {} to 1 TiB", window,
                 kExchangeBytes);
  m.connected.links.resize(static_cast<std::size_t>(m.options.world));
  runtime::Network& network = m.rt.network();
  const std::string name = fmt::format("trireme-rank-{}-epoch-{}", m.options.rank, m.options.epoch);
  TR_ASSIGN_OR_RETURN(m.connected.segment,
                      network.create_segment(name, segment_bytes(m.options.world, ring, window)));
  const SegmentHeader header{.magic = kSegmentMagic,
                             .version = kVersion,
                             .world = static_cast<std::uint32_t>(m.options.world),
                             .rank = static_cast<std::uint32_t>(m.options.rank),
                             .epoch = m.options.epoch,
                             .ring_bytes = ring,
                             .control_bytes = kControlRingBytes,
                             .window_bytes = window};
  std::memcpy(m.connected.segment->data(), &header, sizeof(header));
  TR_ASSIGN_OR_RETURN(m.bell, network.make_doorbell());
  if (m.options.rank + 1 < m.options.world) {
    TR_ASSIGN_OR_RETURN(m.listener, network.listen_local(m.path(m.options.rank)));
  }
  return {};
}

}  // namespace

Task<Result<Connected>> rendezvous(runtime::Runtime& rt, ConnectOptions options) {
  Meeting m(rt, std::move(options));
  TR_CO_RETURN_IF_ERROR(open(m));
  std::vector<Task<Status>> tasks;
  for (int peer = 0; peer < m.options.rank; ++peer) tasks.push_back(connect_to(m, peer));
  if (m.listener) tasks.push_back(accept_from_higher(m));
  const Status status = co_await when_all(rt, std::move(tasks));
  if (!m.failure.ok()) co_return m.failure;
  if (!status.ok()) co_return missing_ranks(m, status);
  co_return std::move(m.connected);
}

}  // namespace trireme::net::shm
