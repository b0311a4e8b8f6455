#include "trireme/net/tcp/peer.h"

#include <utility>

#include "trireme/net/tcp/tcp.h"

namespace trireme::net::tcp {
namespace {
// Per poll and peer, so that one busy peer does not keep the loop.
constexpr std::uint64_t kBytesPerPoll = 2U << 20;
constexpr std::size_t kDataInbox = 64 * 1024, kControlInbox = 4 * 1024;
constexpr std::size_t kMaxControlQueue = 1024;
}  // namespace

Peer::Peer(Endpoint& endpoint, BufferPool& pool, int rank, PeerStreams streams)
    : endpoint_(endpoint),
      pool_(pool),
      rank_(rank),
      streams_(std::move(streams)),
      data_(*streams_.channels[kDataChannel]),
      control_(*streams_.channels[kControlChannel]),
      data_in_(data_, kDataInbox),
      control_in_(control_, kControlInbox),
      data_out_(data_, endpoint) {}

void Peer::send(const FrameHeader& header, const std::byte* data, SendToken token) {
  const bool idle = data_out_.empty();
  data_out_.add(header, data, token);
  if (idle) data_out_.push(kBytesPerPoll);
}

void Peer::send_control(ByteView bytes) {
  if (control_queue_.size() >= kMaxControlQueue) return;  // best effort: the peer does not listen
  control_queue_.push_back(make_frame(FrameType::kControl, bytes));
  if (control_queue_.size() == 1) push_control();
}

void Peer::abandon_recv(std::uint16_t group, const Status& reason) {
  if (!incoming_ || !incoming_->recv) return;
  if (Identity::unpack(incoming_->first.high, incoming_->first.low).group != group) return;
  endpoint_.complete_later(incoming_->recv->done, incoming_->recv->cookie, reason);
  incoming_->recv.reset();
}

void Peer::abandon(const Status& reason) {
  data_out_.abandon();  // the endpoint completes the sends
  if (incoming_ && incoming_->recv) {
    endpoint_.complete_later(incoming_->recv->done, incoming_->recv->cookie, reason);
    incoming_->recv.reset();
  }
}

void Peer::close() {
  for (const auto& stream : streams_.channels) stream->close();
}

void Peer::fail(const Status& why) {
  if (!broken_.ok()) return;
  broken_ = Status(
      Code::kCorrupt,
      fmt::format("[net] rank {} sent rank {} nonsense: {}; restart the job", rank_, endpoint_.rank(),
                  why.message()),
      ErrorContext{
          .rank = endpoint_.rank(), .peer = rank_, .operation = {}, .tag = {}, .reason = "corrupt frame"});
  if (incoming_ && incoming_->recv)
    endpoint_.complete_later(incoming_->recv->done, incoming_->recv->cookie, broken_);
  incoming_.reset();
  for (const PendingRecv& recv : endpoint_.matcher().take_recvs_of(rank_))
    endpoint_.complete_later(recv.done, recv.cookie, broken_);
  data_out_.fail(broken_);
}

// Where the payload goes: into the recv, into memory of our own, nowhere (refused), or nobody knows yet
// (false).
bool Peer::decide(const FrameHeader& header) {
  const Identity id = Identity::unpack(header.high, header.low);
  const std::uint64_t payload = header.phantom ? 0 : header.message_bytes;
  Incoming in{.first = header, .recv = {}, .held = {}};
  if (endpoint_.refuses(rank_, id)) {
    // refused: thrown away
  } else if (auto recv = endpoint_.matcher().take_recv(rank_, id)) {
    const Status status = endpoint_.check_match(rank_, id, *recv, header.fingerprint, header.message_bytes);
    if (status.ok())
      in.recv = *recv;
    else
      endpoint_.complete_later(recv->done, recv->cookie, status);
  } else if (payload > 0) {
    if (held_bytes_ + payload > kMaxHeldTcpBytes) return false;
    held_bytes_ += payload;
    in.held = pool_.take(payload);
  } else {
    endpoint_.arrived_on_loop(rank_, id, {header.fingerprint, nullptr, header.message_bytes}, true);
  }
  incoming_ = std::move(in);
  return true;
}

Result<bool> Peer::DataSink::begin_frame(const FrameHeader& header) {
  if (header.type != FrameType::kData) return error(Code::kCorrupt, "[net] a data frame was expected");
  if (!peer_.incoming_) {
    if (header.offset != 0) return error(Code::kCorrupt, "[net] a message began in its middle");
    return peer_.decide(header);
  }
  const FrameHeader& first = peer_.incoming_->first;
  if (header.offset != peer_.incoming_->offset || header.high != first.high || header.low != first.low ||
      header.fingerprint != first.fingerprint || header.message_bytes != first.message_bytes ||
      header.phantom)
    return error(Code::kCorrupt, "[net] a frame does not continue its message");
  return true;
}

std::byte* Peer::DataSink::target() {
  const Incoming& in = *peer_.incoming_;
  std::byte* start = in.recv ? in.recv->view.data : in.held.get();
  return start == nullptr ? nullptr : start + in.offset;
}

void Peer::DataSink::end_frame(const FrameHeader& header) {
  Incoming& in = *peer_.incoming_;
  in.offset += header.payload_bytes;
  if (!header.more)
    peer_.finish_message();
  else if (in.recv)
    in.recv->done->on_piece(in.recv->cookie, in.offset);
}

void Peer::finish_message() {
  Incoming in = std::move(*incoming_);
  incoming_.reset();
  --expected_;
  if (in.recv && in.recv->done->at_once()) {
    in.recv->done->on_complete(in.recv->cookie, ok_status());
  } else if (in.recv) {
    endpoint_.complete_later(in.recv->done, in.recv->cookie, ok_status());
  } else if (in.held) {
    const Identity id = Identity::unpack(in.first.high, in.first.low);
    if (!endpoint_.arrived_on_loop(rank_, id,
                                   {in.first.fingerprint, std::move(in.held), in.first.message_bytes}, true))
      held_bytes_ -= in.first.message_bytes;  // a recv came meanwhile, or it was refused
  }
}

Result<bool> Peer::ControlSink::begin_frame(const FrameHeader& header) {
  if (header.type != FrameType::kControl) return error(Code::kCorrupt, "[net] a control frame was expected");
  return true;
}

void Peer::ControlSink::end_frame(const FrameHeader& header) {
  peer_.endpoint_.control_on_loop(peer_.rank_, ByteView(bytes_).first(header.payload_bytes));
}

bool Peer::push_control() {
  bool progress = false;
  while (!control_queue_.empty()) {
    const ByteView piece = ByteView(control_queue_.front()).subspan(control_done_);
    const auto put = control_.try_write(std::span(&piece, 1));
    if (!put.ok()) control_queue_.clear();  // lost: the reader notices
    if (!put.ok() || *put == 0) break;
    progress = true;
    control_done_ += *put;
    if (control_done_ < control_queue_.front().size()) break;
    control_queue_.pop_front();
    control_done_ = 0;
  }
  return progress;
}

bool Peer::poll_on_loop() {
  bool progress = false;
  if (broken_.ok() && !control_in_.ended() && control_.may_read()) {
    progress |= control_in_.pull(control_sink_, kBytesPerPoll);
    if (endpoint_.closed()) return progress;
    if (!control_in_.failure().ok()) fail(control_in_.failure());
  }
  const bool worth = data_.may_read() || expected_ > 0 || incoming_ || data_in_.stands();
  if (broken_.ok() && !data_in_.ended() && worth) {
    progress |= data_in_.pull(data_sink_, kBytesPerPoll);
    if (!data_in_.failure().ok()) fail(data_in_.failure());
  }
  // Without asking may_write(): a full socket has room again long before the loop looks at its descriptors.
  if (!data_out_.empty()) progress |= data_out_.push(kBytesPerPoll);
  if (!control_queue_.empty() && control_.may_write()) progress |= push_control();
  return progress;
}

}  // namespace trireme::net::tcp
