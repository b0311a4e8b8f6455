#include "trireme/runtime/real/net/unix_stream.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <deque>

#include "trireme/runtime/real/loop_bell.h"
#include "trireme/runtime/real/net/socket.h"
#include "trireme/runtime/real/segment.h"

namespace trireme::runtime::real {
namespace {

enum Kind : std::uint32_t { kBytes = 1, kSegment = 2, kDoorbell = 3 };
struct FrameHeader {
  std::uint32_t kind, bytes;
};
constexpr std::size_t kMaxFrameBytes = std::size_t{1} << 30;
constexpr std::size_t kReadBytes = std::size_t{64} << 10;
constexpr std::size_t kMaxFds = 8;  // in one received message; a frame brings at most two

class UnixStream final : public Stream {
 public:
  UnixStream(Runtime& rt, Loop& loop, Fd socket) : socket_(rt, loop, std::move(socket)) {}
  ~UnixStream() override { close(); }

  Status watch() { return socket_.watch(); }

  Task<Result<std::size_t>> read_some(MutByteView into, TimeNs deadline) override {
    while (inbox_.size() == inbox_start_ && !into.empty()) {
      if (ended_ && input_failure_.ok()) co_return std::size_t{0};
      TR_CO_RETURN_IF_ERROR(co_await wait_for_input("read", deadline));
    }
    const std::size_t count = std::min(into.size(), inbox_.size() - inbox_start_);
    std::copy_n(inbox_.begin() + static_cast<std::ptrdiff_t>(inbox_start_), count, into.begin());
    inbox_start_ += count;
    if (inbox_start_ == inbox_.size()) {
      inbox_.clear();
      inbox_start_ = 0;
    }
    co_return count;
  }

  Task<Status> write_all(ByteView bytes, TimeNs deadline) override {
    while (!bytes.empty()) {
      const ByteView frame = bytes.first(std::min(bytes.size(), kMaxFrameBytes));
      TR_CO_RETURN_IF_ERROR(co_await send_frame(kBytes, frame, std::vector<int>(), deadline));
      bytes = bytes.subspan(frame.size());
    }
    co_return Status();
  }

  Task<Status> send_segment(SharedSegment& segment, TimeNs deadline) override {
    auto* mine = dynamic_cast<MemorySegment*>(&segment);
    TR_CHECK(mine != nullptr, "a real stream sends segments of a real network");
    const std::uint64_t size = segment.size();
    std::vector<int> fds(1, mine->fd());
    co_return co_await send_frame(kSegment, std::as_bytes(std::span(&size, 1)), std::move(fds), deadline);
  }

  Task<Result<std::unique_ptr<SharedSegment>>> receive_segment(TimeNs deadline) override {
    while (segments_.empty()) TR_CO_RETURN_IF_ERROR(co_await wait_for_input("receive a segment", deadline));
    auto segment = std::move(segments_.front());
    segments_.pop_front();
    co_return std::move(segment);
  }

  Task<Status> send_doorbell(Doorbell& bell, TimeNs deadline) override {
    auto* mine = dynamic_cast<LoopBell*>(&bell);
    TR_CHECK(mine != nullptr, "a real stream sends doorbells of a real network");
    std::vector<int> fds(1, mine->event_fd());
    fds.push_back(mine->page_fd());
    co_return co_await send_frame(kDoorbell, ByteView(), std::move(fds), deadline);
  }

  Task<Result<std::unique_ptr<Doorbell>>> receive_doorbell(TimeNs deadline) override {
    while (bells_.empty()) TR_CO_RETURN_IF_ERROR(co_await wait_for_input("receive a doorbell", deadline));
    auto bell = std::move(bells_.front());
    bells_.pop_front();
    co_return std::move(bell);
  }

  void close() override {
    ended_ = true;
    socket_.close();
  }

 private:
  Task<Status> wait_for_input(std::string_view action, TimeNs deadline);
  bool receive();
  Status parse();
  Status take_segment(ByteView payload);
  Status take_doorbell();
  Task<Status> send_frame(Kind kind, ByteView payload, std::vector<int> fds, TimeNs deadline);
  ssize_t send_once(ByteView head, ByteView payload, const std::vector<int>& fds);

  Socket socket_;

  Bytes raw_;                    // received, the frame not complete yet
  std::uint32_t body_left_ = 0;  // bytes of the current kBytes frame still to come
  Bytes inbox_;                  // bytes for readers, from inbox_start_ on
  std::size_t inbox_start_ = 0;
  std::deque<Fd> fds_;
  std::deque<std::unique_ptr<SharedSegment>> segments_;
  std::deque<std::unique_ptr<Doorbell>> bells_;
  bool ended_ = false;    // the peer closed, or this end did
  Status input_failure_;  // what came makes no sense; sticks
  bool frame_open_ =
      false;  // a frame was sent in part only (deadline or a destroyed Task): no more can follow
};

// Sorts what arrived: bytes to the inbox, segments and doorbells to their queues.
Status UnixStream::parse() {
  ByteView rest = raw_;
  Status failure;
  while (!rest.empty() && failure.ok()) {
    const std::size_t count = std::min(rest.size(), std::size_t{body_left_});
    inbox_.insert(inbox_.end(), rest.begin(), rest.begin() + static_cast<std::ptrdiff_t>(count));
    rest = rest.subspan(count);
    body_left_ -= static_cast<std::uint32_t>(count);
    ByteView frame = rest;
    FrameHeader header{};
    if (!take_le(frame, header)) break;
    if (header.kind == kBytes) {
      body_left_ = header.bytes;
    } else if (header.kind == kSegment && header.bytes == sizeof(std::uint64_t)) {
      if (frame.size() < header.bytes) break;
      failure = take_segment(frame.first(header.bytes));
      frame = frame.subspan(header.bytes);
    } else if (header.kind == kDoorbell && header.bytes == 0) {
      failure = take_doorbell();
    } else {
      failure =
          error(Code::kCorrupt, "[network] the stream carries an unknown frame: got kind {} of {} bytes",
                header.kind, header.bytes);
    }
    rest = frame;
  }
  raw_.erase(raw_.begin(), raw_.end() - static_cast<std::ptrdiff_t>(rest.size()));
  return failure;
}

Status UnixStream::take_segment(ByteView payload) {
  std::uint64_t size = 0;
  if (!take_le(payload, size) || fds_.empty())
    return error(Code::kCorrupt, "[network] a segment arrived without its descriptor");
  Fd fd = std::move(fds_.front());
  fds_.pop_front();
  TR_ASSIGN_OR_RETURN(auto segment, MemorySegment::from_fd(std::move(fd), size));
  segments_.push_back(std::move(segment));
  return {};
}

Status UnixStream::take_doorbell() {
  if (fds_.size() < 2) return error(Code::kCorrupt, "[network] a doorbell arrived without its descriptors");
  Fd event = std::move(fds_[0]), page = std::move(fds_[1]);
  fds_.erase(fds_.begin(), fds_.begin() + 2);
  TR_ASSIGN_OR_RETURN(auto bell, LoopBell::from_fds(std::move(event), std::move(page)));
  bells_.push_back(std::move(bell));
  return {};
}

// One recvmsg. False when nothing is there yet.
bool UnixStream::receive() {
  const std::size_t used = raw_.size();
  raw_.resize(used + kReadBytes);
  iovec piece{raw_.data() + used, kReadBytes};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int) * kMaxFds)];
  msghdr message{};
  message.msg_iov = &piece;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  const ssize_t got = socket_.receive(message, MSG_CMSG_CLOEXEC);
  const int failure = errno;
  raw_.resize(used + static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
  if (got < 0 && (failure == EAGAIN || failure == EWOULDBLOCK)) return false;
  if (got <= 0) {
    ended_ = true;  // a reset is an end too: what arrived before it is still handed out
    return true;
  }
  for (cmsghdr* c = CMSG_FIRSTHDR(&message); c != nullptr; c = CMSG_NXTHDR(&message, c)) {
    if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS) continue;
    for (std::size_t i = 0; i < (c->cmsg_len - CMSG_LEN(0)) / sizeof(int); ++i) {
      int fd = -1;
      std::memcpy(&fd, CMSG_DATA(c) + i * sizeof(int), sizeof(int));
      fds_.emplace_back(fd);
    }
  }
  if (message.msg_flags & MSG_CTRUNC)
    input_failure_ = error(Code::kExhausted, "[network] cannot receive descriptors: too many are open{}",
                           open_files_hint());
  else
    input_failure_ = parse();
  return true;
}

// Something new was received and sorted. An end or a failure of the input sticks.
Task<Status> UnixStream::wait_for_input(std::string_view action, TimeNs deadline) {
  TR_CO_RETURN_IF_ERROR(input_failure_);
  if (ended_) co_return stream_lost(action, ECONNRESET);
  while (!receive()) {
    if (!co_await socket_.readable(deadline))
      co_return error(Code::kDeadline, "[network] cannot {}: nothing came from the peer before the deadline",
                      action);
    if (ended_) co_return Status();  // closed at this end, or by a read that another Task made
  }
  co_return Status();
}

ssize_t UnixStream::send_once(ByteView head, ByteView payload, const std::vector<int>& fds) {
  iovec pieces[2] = {{const_cast<std::byte*>(head.data()), head.size()},
                     {const_cast<std::byte*>(payload.data()), payload.size()}};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int) * 2)] = {};
  msghdr message{};
  message.msg_iov = pieces;
  message.msg_iovlen = 2;
  if (!fds.empty()) {
    message.msg_control = control;
    message.msg_controllen = CMSG_SPACE(sizeof(int) * fds.size());
    cmsghdr* c = CMSG_FIRSTHDR(&message);
    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_RIGHTS;
    c->cmsg_len = CMSG_LEN(sizeof(int) * fds.size());
    std::memcpy(CMSG_DATA(c), fds.data(), sizeof(int) * fds.size());
  }
  return socket_.send(message);
}

Task<Status> UnixStream::send_frame(Kind kind, ByteView payload, std::vector<int> fds, TimeNs deadline) {
  if (frame_open_)
    co_return error(Code::kUnavailable,
                    "[network] cannot write: an earlier write on this stream was cut short");
  const FrameHeader header{kind, static_cast<std::uint32_t>(payload.size())};
  ByteView head = std::as_bytes(std::span(&header, 1));
  while (!head.empty() || !payload.empty()) {
    if (!socket_.is_open()) co_return stream_lost("write", ESHUTDOWN);
    const ssize_t put = send_once(head, payload, fds);
    if (put >= 0) {
      fds.clear();  // they travel with the first byte
      frame_open_ = true;
      const std::size_t of_head = std::min(head.size(), static_cast<std::size_t>(put));
      head = head.subspan(of_head);
      payload = payload.subspan(static_cast<std::size_t>(put) - of_head);
      continue;
    }
    const int failure = errno;
    if (failure == EPIPE || failure == ECONNRESET) co_return stream_lost("write", failure);
    if (failure != EAGAIN && failure != EWOULDBLOCK)
      co_return system_error("network", "write to a stream", failure);
    if (!co_await socket_.writable(deadline))
      co_return error(Code::kDeadline, "[network] cannot write: the peer took no more before the deadline");
  }
  frame_open_ = false;
  co_return Status();
}

}  // namespace

Result<std::unique_ptr<Stream>> make_unix_stream(Runtime& rt, Loop& loop, Fd socket) {
  ucred peer{};
  socklen_t size = sizeof peer;
  if (getsockopt(socket.get(), SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0)
    return system_error("network", "ask who the peer is", errno);
  if (peer.uid != geteuid())
    return error(Code::kUnavailable,
                 "[network] refused a local peer of another user: got uid {}, expected {}", peer.uid,
                 geteuid());
  auto stream = std::make_unique<UnixStream>(rt, loop, std::move(socket));
  TR_RETURN_IF_ERROR(stream->watch());
  return std::unique_ptr<Stream>(std::move(stream));
}

}  // namespace trireme::runtime::real
