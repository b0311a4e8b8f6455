#include "trireme/net/shm/peer.h"

#include <utility>

#include "trireme/net/shm/shm.h"

namespace trireme::net::shm {
namespace {
constexpr std::uint64_t kMaxMessageBytes = std::uint64_t{1} << 40;
// Published in pieces of this size, so that the receiver copies out while the sender copies in.
constexpr std::uint64_t kPieceBytes = 256 * 1024;
// Per poll and peer, so that one busy peer does not keep the loop.
constexpr std::uint64_t kBytesPerPoll = 4U << 20;
constexpr std::size_t kMaxControlQueue = 1024;
}  // namespace

Peer::Peer(Endpoint& endpoint, BufferPool& pool, int rank, PeerLink link, std::byte* own_segment,
           std::size_t ring_bytes)
    : endpoint_(endpoint), pool_(pool), rank_(rank), link_(std::move(link)) {
  const Block out = block_of(link_.segment->data(), endpoint.rank(), ring_bytes);
  data_out_ = RingWriter(out.data_header, out.data, ring_bytes);
  control_out_ = RingWriter(out.control_header, out.control, kControlRingBytes);
  const Block in = block_of(own_segment, rank, ring_bytes);
  data_in_ = RingReader(in.data_header, in.data, ring_bytes);
  control_in_ = RingReader(in.control_header, in.control, kControlRingBytes);
}

void Peer::send(const RingFrameHeader& header, const std::byte* data, SendToken token) {
  outgoing_.push_back({header, data, token});
  if (outgoing_.size() == 1) push_on_loop();
}

void Peer::send_control(ByteView bytes) {
  if (control_queue_.size() >= kMaxControlQueue) return;  // best effort: the peer does not listen
  control_queue_.emplace_back(bytes.begin(), bytes.end());
  if (control_queue_.size() == 1) push_control();
}

void Peer::abandon_recv(std::uint16_t group, const Status& reason) {
  if (!incoming_ || !incoming_->recv) return;
  if (Identity::unpack(incoming_->header.high, incoming_->header.low).group != group) return;
  endpoint_.complete_later(incoming_->recv->done, incoming_->recv->cookie, reason);
  incoming_->recv.reset();
}

void Peer::abandon(const Status& reason) {
  outgoing_.clear();  // the endpoint completes the sends
  if (incoming_ && incoming_->recv) {
    endpoint_.complete_later(incoming_->recv->done, incoming_->recv->cookie, reason);
    incoming_->recv.reset();
  }
}

void Peer::fail(const char* what) {
  if (!broken_.ok()) return;
  const std::string reason = fmt::format("corrupt exchange ring: {}", what);
  broken_ = Status(
      Code::kCorrupt,
      fmt::format("[net] rank {} wrote nonsense into the exchange ring of rank {}: {}; restart the job",
                  rank_, endpoint_.rank(), what),
      ErrorContext{.rank = endpoint_.rank(), .peer = rank_, .operation = {}, .tag = {}, .reason = reason});
  if (incoming_ && incoming_->recv)
    endpoint_.complete_later(incoming_->recv->done, incoming_->recv->cookie, broken_);
  incoming_.reset();
  for (const PendingRecv& recv : endpoint_.matcher().take_recvs_of(rank_))
    endpoint_.complete_later(recv.done, recv.cookie, broken_);
  for (const Outgoing& out : std::exchange(outgoing_, {})) endpoint_.end_send_later(out.token, broken_);
}

bool Peer::push_some(Outgoing& out, std::uint64_t free) {
  if (!out.header_written) {
    if (free < sizeof(RingFrameHeader)) return false;
    data_out_.write(&out.header, sizeof(RingFrameHeader));
    out.header_written = true;
    free -= sizeof(RingFrameHeader);
  }
  const std::uint64_t total = out.header.phantom != 0 ? 0 : out.header.bytes;
  const std::uint64_t piece = std::min({total - out.offset, free, kPieceBytes});
  if (piece > 0) data_out_.write(out.data + out.offset, piece);
  out.offset += piece;
  data_out_.publish();
  if (out.offset == total) {
    endpoint_.end_send_later(out.token, ok_status());
    outgoing_.pop_front();
  }
  return true;
}

bool Peer::push_on_loop() {
  bool progress = false;
  // A receiver that keeps up would let this go on to the end of everything. Not less than a full ring, whose
  // reader rings when there is room again.
  const std::uint64_t limit = data_out_.written() + std::max(kBytesPerPoll, data_out_.capacity());
  for (bool asked = false; !outgoing_.empty() && broken_.ok() && data_out_.written() < limit;) {
    std::uint64_t free = 0;
    if (!data_out_.free_bytes(free)) {
      fail("its read position is outside the ring");
      break;
    }
    // The header alone needs kAlign bytes, a started message any space at all.
    if (free > 0 && push_some(outgoing_.front(), free)) {
      progress = true;
      asked = false;
      link_.bell->ring();
      continue;
    }
    if (std::exchange(asked, true)) break;
    data_out_.ask_for_bell();
  }
  return progress;
}

bool Peer::push_control() {
  bool progress = false;
  for (bool asked = false; !control_queue_.empty() && broken_.ok();) {
    const Bytes& bytes = control_queue_.front();
    std::uint64_t free = 0;
    if (!control_out_.free_bytes(free)) {
      fail("its read position is outside the control ring");
      break;
    }
    if (free >= sizeof(RingFrameHeader) + round_up(bytes.size())) {
      RingFrameHeader header{};
      header.magic = kFrameMagic;
      header.type = RingFrameType::kControl;
      header.bytes = bytes.size();
      control_out_.write(&header, sizeof(header));
      if (!bytes.empty()) control_out_.write(bytes.data(), bytes.size());
      control_out_.publish();
      control_queue_.pop_front();
      progress = true;
      continue;
    }
    if (std::exchange(asked, true)) break;
    control_out_.ask_for_bell();
  }
  if (progress) link_.bell->ring();
  return progress;
}

bool Peer::begin_message() {
  incoming_.emplace();
  RingFrameHeader& h = incoming_->header;
  data_in_.read(&h, sizeof(h));  // copied once, then checked: the peer may still write there
  if (h.magic != kFrameMagic || h.type != RingFrameType::kData || h.bytes > kMaxMessageBytes ||
      h.phantom > 1) {
    fail("a frame header makes no sense");
    return false;
  }
  return true;
}

// Where the payload goes: into the recv, into memory of our own, or nowhere yet (false).
bool Peer::decide() {
  Incoming& in = *incoming_;
  const Identity id = Identity::unpack(in.header.high, in.header.low);
  const bool payload = in.header.phantom == 0 && in.header.bytes > 0;
  if (endpoint_.refuses(rank_, id)) {
    in.decided = true;  // refused: skipped
    return true;
  }
  if (auto recv = endpoint_.matcher().take_recv(rank_, id)) {
    const Status status = endpoint_.check_match(rank_, id, *recv, in.header.fingerprint, in.header.bytes);
    if (status.ok())
      in.recv = *recv;
    else
      endpoint_.complete_later(recv->done, recv->cookie, status);
  } else if (payload) {
    if (held_bytes_ + in.header.bytes > kMaxHeldBytes) return false;
    held_bytes_ += in.header.bytes;
    in.held = pool_.take(in.header.bytes);
  } else {
    endpoint_.arrived_on_loop(rank_, id, {in.header.fingerprint, nullptr, in.header.bytes});
  }
  in.decided = true;
  return true;
}

void Peer::finish_message() {
  Incoming in = std::move(*incoming_);
  incoming_.reset();
  if (in.recv && in.recv->done->at_once()) {
    in.recv->done->on_complete(in.recv->cookie, ok_status());
  } else if (in.recv) {
    endpoint_.complete_later(in.recv->done, in.recv->cookie, ok_status());
  } else if (in.held) {
    const Identity id = Identity::unpack(in.header.high, in.header.low);
    if (!endpoint_.arrived_on_loop(rank_, id, {in.header.fingerprint, std::move(in.held), in.header.bytes},
                                   true))
      held_bytes_ -= in.header.bytes;  // a recv came meanwhile, or it was refused
  }
}

bool Peer::pull_data_on_loop() {
  std::uint64_t moved = 0;
  bool progress = false;
  stands_ = false;
  while (broken_.ok() && moved < kBytesPerPoll) {
    std::uint64_t available = 0;
    if (!data_in_.available(available)) {
      fail("its write position is outside the ring");
      break;
    }
    if (!incoming_) {
      if (available == 0 || !begin_message()) break;
      progress = true;
      moved += sizeof(RingFrameHeader);
      continue;
    }
    if (!incoming_->decided) {
      if (!decide()) {
        stands_ = true;
        break;
      }
      progress = true;
    }
    Incoming& in = *incoming_;
    const std::uint64_t total = in.header.phantom != 0 ? 0 : in.header.bytes;
    const std::uint64_t piece = std::min({total - in.offset, available, kPieceBytes});
    if (in.offset < total && piece == 0) break;
    std::byte* target = in.target();
    if (piece > 0) data_in_.read(target != nullptr ? target + in.offset : nullptr, piece);
    in.offset += piece;
    moved += piece;
    progress |= piece > 0;
    if (in.offset == total)
      finish_message();
    else if (in.recv)
      in.recv->done->on_piece(in.recv->cookie, in.offset);
    if (data_in_.release()) link_.bell->ring();
  }
  if (progress && data_in_.release()) link_.bell->ring();
  return progress;
}

bool Peer::pull_control_on_loop() {
  bool progress = false;
  while (broken_.ok()) {
    std::uint64_t available = 0;
    if (!control_in_.available(available)) {
      fail("its write position is outside the control ring");
      break;
    }
    if (available == 0) break;
    RingFrameHeader h;
    control_in_.read(&h, sizeof(h));
    if (h.magic != kFrameMagic || h.type != RingFrameType::kControl || h.bytes > kMaxControlBytes ||
        sizeof(h) + round_up(h.bytes) > available) {
      fail("a control frame makes no sense");
      break;
    }
    std::byte bytes[kMaxControlBytes];
    control_in_.read(bytes, h.bytes);
    if (control_in_.release()) link_.bell->ring();
    progress = true;
    endpoint_.control_on_loop(rank_, {bytes, h.bytes});
    if (endpoint_.closed()) break;
  }
  return progress;
}

bool Peer::poll_on_loop() {
  bool progress = pull_control_on_loop();
  if (endpoint_.closed()) return progress;
  progress |= pull_data_on_loop();
  progress |= push_on_loop();
  progress |= push_control();
  return progress;
}

}  // namespace trireme::net::shm
