#include "trireme/runtime/real/net/socket.h"

#include <algorithm>
#include <cerrno>

namespace trireme::runtime::real {

Fd make_socket(int family) { return Fd(::socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)); }

int bind_once(const Fd& socket, const SocketAddress& address) {
  return ::bind(socket.get(), address.get(), address.size) == 0 ? 0 : errno;
}

int connect_once(const Fd& socket, const SocketAddress& address) {
  return ::connect(socket.get(), address.get(), address.size) == 0 ? 0 : errno;
}

Status Socket::watch() { return loop_.watch(fd_.get(), EPOLLIN | EPOLLOUT | EPOLLRDHUP, this); }

void Socket::close() {
  if (!fd_) return;
  loop_.unwatch(fd_.get(), this);
  fd_.reset();
  readers_.wake();
  writers_.wake();
}

void Socket::on_ready(std::uint32_t events) {
  if (events & (EPOLLIN | EPOLLRDHUP | EPOLLHUP | EPOLLERR)) {
    may_read_ = true;
    readers_.wake();
  }
  if (events & (EPOLLOUT | EPOLLHUP | EPOLLERR)) {
    may_write_ = true;
    writers_.wake();
  }
}

ssize_t Socket::receive(msghdr& message, int flags) {
  ssize_t got = 0;
  do {
    got = ::recvmsg(fd_.get(), &message, flags);
  } while (got < 0 && errno == EINTR);
  may_read_ = got >= 0 || errno != EAGAIN;
  return got;
}

ssize_t Socket::send(const msghdr& message) {
  ssize_t put = 0;
  do {
    put = ::sendmsg(fd_.get(), &message, MSG_NOSIGNAL);
  } while (put < 0 && errno == EINTR);
  may_write_ = put >= 0 || errno != EAGAIN;
  return put;
}

Status stream_lost(std::string_view action, int error_number) {
  return error(Code::kPeerLost, "[network] cannot {}: the peer closed the stream ({})", action,
               text_of_errno(error_number));
}

namespace {

class SocketListener final : public Listener, Loop::FdHandler {
 public:
  SocketListener(Runtime& rt, Loop& loop, Fd socket, std::string where, HostPort address,
                 MakeStream make_stream, Callback closed)
      : rt_(rt),
        loop_(loop),
        socket_(std::move(socket)),
        where_(std::move(where)),
        address_(std::move(address)),
        make_stream_(make_stream),
        closed_(std::move(closed)) {}
  ~SocketListener() override {
    loop_.unwatch(socket_.get(), this);
    if (closed_) closed_();
  }

  Status start() {
    if (::listen(socket_.get(), 1024) != 0)
      return system_error("network", fmt::format("listen at '{}'", where_), errno);
    return loop_.watch(socket_.get(), EPOLLIN, this);
  }
  HostPort address() const override { return address_; }

  Task<Result<std::unique_ptr<Stream>>> accept(TimeNs deadline) override {
    for (;;) {
      Fd peer(::accept4(socket_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
      if (peer) co_return make_stream_(rt_, loop_, std::move(peer));
      if (errno == EINTR || errno == ECONNABORTED) continue;
      if (errno != EAGAIN && errno != EWOULDBLOCK)
        co_return system_error("network", fmt::format("accept at '{}'", where_), errno);
      if (!co_await waiters_.wait(rt_, deadline))
        co_return error(Code::kDeadline, "[network] nobody connected to '{}' before the deadline", where_);
    }
  }

 private:
  void on_ready(std::uint32_t) override { waiters_.wake(); }

  Runtime& rt_;
  Loop& loop_;
  const Fd socket_;
  const std::string where_;
  const HostPort address_;
  const MakeStream make_stream_;
  Callback closed_;
  ReadyWaiters waiters_;
};

// Somebody may listen there later, or the way may come back.
bool may_come(int failure) {
  switch (failure) {
    case ENOENT:
    case ECONNREFUSED:
    case ECONNRESET:
    case EAGAIN:
    case EINTR:
    case ETIMEDOUT:
    case EHOSTUNREACH:
    case EHOSTDOWN:
    case ENETUNREACH:
    case EADDRNOTAVAIL:
      return true;
    default:
      return false;
  }
}

// Two ends of one port: a connection to a port where nobody listens may meet itself when the kernel happens
// to choose that port for its own end.
bool met_itself(const Fd& socket) {
  SocketAddress own, peer;
  own.size = peer.size = sizeof own.value;
  if (::getsockname(socket.get(), reinterpret_cast<sockaddr*>(&own.value), &own.size) != 0 ||
      ::getpeername(socket.get(), reinterpret_cast<sockaddr*>(&peer.value), &peer.size) != 0)
    return false;
  return own.value.ss_family != AF_UNIX && own.size == peer.size &&
         std::memcmp(&own.value, &peer.value, own.size) == 0;
}

// Gives 0 or an errno; fills `out` with the connected socket.
Task<int> try_address(Runtime& rt, Loop& loop, const SocketAddress& address, TimeNs deadline, Fd& out) {
  Fd fd = make_socket(address.value.ss_family);
  if (!fd) co_return errno;
  int failure = connect_once(fd, address);
  if (failure == EINPROGRESS) {
    Fd watched = fd.duplicate();
    if (!watched) co_return errno;
    Socket socket(rt, loop, std::move(watched));
    if (!socket.watch().ok()) co_return ENFILE;
    for (failure = EINPROGRESS; failure == EINPROGRESS;) {
      if (!co_await socket.writable(deadline)) co_return ETIMEDOUT;
      socklen_t size = sizeof failure;
      if (::getsockopt(fd.get(), SOL_SOCKET, SO_ERROR, &failure, &size) != 0) failure = errno;
    }
  }
  if (failure == 0 && met_itself(fd)) failure = ECONNREFUSED;
  if (failure == 0) out = std::move(fd);
  co_return failure;
}

}  // namespace

Result<std::unique_ptr<Listener>> make_socket_listener(Runtime& rt, Loop& loop, Fd bound, std::string where,
                                                       HostPort address, MakeStream make_stream,
                                                       Callback closed) {
  auto listener = std::make_unique<SocketListener>(rt, loop, std::move(bound), std::move(where),
                                                   std::move(address), make_stream, std::move(closed));
  TR_RETURN_IF_ERROR(listener->start());
  return std::unique_ptr<Listener>(std::move(listener));
}

Task<Result<Fd>> connect_socket(Runtime& rt, Loop& loop, std::vector<SocketAddress> addresses,
                                std::string where, TimeNs deadline) {
  for (TimeNs pause = kMilli / 2;; pause = std::min(pause * 2, 20 * kMilli)) {
    int failure = 0;
    for (const SocketAddress& address : addresses) {
      Fd connected;
      failure = co_await try_address(rt, loop, address, deadline, connected);
      if (failure == 0) co_return std::move(connected);
      if (!may_come(failure))
        co_return system_error("network", fmt::format("connect to '{}'", where), failure);
    }
    if (rt.now() >= deadline)
      co_return error(Code::kDeadline, "[network] nobody listened at '{}' before the deadline: {}", where,
                      text_of_errno(failure));
    co_await rt.sleep_until(std::min(rt.now() + pause, deadline));
  }
}

}  // namespace trireme::runtime::real
