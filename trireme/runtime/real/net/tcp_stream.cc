#include "trireme/runtime/real/net/tcp_stream.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "trireme/runtime/real/net/socket.h"

namespace trireme::runtime::real {
namespace {

HostPort host_port_of(const SocketAddress& address) {
  HostPort out;
  std::array<char, INET6_ADDRSTRLEN> text{};
  if (address.value.ss_family == AF_INET6) {
    const auto& v6 = reinterpret_cast<const sockaddr_in6&>(address.value);
    inet_ntop(AF_INET6, &v6.sin6_addr, text.data(), text.size());
    out.port = ntohs(v6.sin6_port);
  } else {
    const auto& v4 = reinterpret_cast<const sockaddr_in&>(address.value);
    inet_ntop(AF_INET, &v4.sin_addr, text.data(), text.size());
    out.port = ntohs(v4.sin_port);
  }
  out.host = text.data();
  return out;
}

HostPort own_address(int fd) {
  SocketAddress own;
  own.size = sizeof own.value;
  if (::getsockname(fd, reinterpret_cast<sockaddr*>(&own.value), &own.size) != 0) return {};
  return host_port_of(own);
}

bool is_loopback(const SocketAddress& address) {
  if (address.value.ss_family == AF_INET) {
    const auto& v4 = reinterpret_cast<const sockaddr_in&>(address.value);
    return ntohl(v4.sin_addr.s_addr) >> 24 == 127;
  }
  const auto& v6 = reinterpret_cast<const sockaddr_in6&>(address.value).sin6_addr;
  return IN6_IS_ADDR_LOOPBACK(&v6) || (IN6_IS_ADDR_V4MAPPED(&v6) && v6.s6_addr[12] == 127);
}

// What nobody asks a resolver about.
bool is_address(const std::string& host) {
  in6_addr any{};
  return inet_pton(AF_INET, host.c_str(), &any) == 1 || inet_pton(AF_INET6, host.c_str(), &any) == 1;
}

Result<std::vector<SocketAddress>> look_up(const HostPort& where) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICSERV;
  addrinfo* list = nullptr;
  const int failure = getaddrinfo(where.host.c_str(), std::to_string(where.port).c_str(), &hints, &list);
  if (failure != 0)
    return error(Code::kNotFound,
                 "[network] no such host: got '{}' ({}), expected an address or a known name", where.host,
                 gai_strerror(failure));
  std::vector<SocketAddress> out;
  for (const addrinfo* entry = list; entry != nullptr; entry = entry->ai_next) {
    if (entry->ai_family != AF_INET && entry->ai_family != AF_INET6) continue;
    SocketAddress& address = out.emplace_back();
    std::memcpy(&address.value, entry->ai_addr, entry->ai_addrlen);
    address.size = entry->ai_addrlen;
  }
  freeaddrinfo(list);
  return out;
}

Result<std::vector<SocketAddress>> addresses_of(const HostPort& where, const Resolve& resolve) {
  if (!resolve || is_address(where.host)) return look_up(where);
  std::vector<SocketAddress> out;
  for (const std::string& address : resolve(where.host)) {
    TR_ASSIGN_OR_RETURN(const auto found, look_up({address, where.port}));
    out.insert(out.end(), found.begin(), found.end());
  }
  if (!out.empty()) return out;
  return error(Code::kNotFound, "[network] no such host: got '{}', expected an address or a known name",
               where.host);
}

// "localhost", "localhost.localdomain", "ip6-localhost": loopback for everybody.
bool means_loopback(const std::string& host) {
  return host.starts_with("localhost") || host.starts_with("ip6-loc") || host.starts_with("ip6-loop");
}

SocketAddress any_address(const SocketAddress& like) {
  SocketAddress any = like;
  if (like.value.ss_family == AF_INET6)
    reinterpret_cast<sockaddr_in6&>(any.value).sin6_addr = in6addr_any;
  else
    reinterpret_cast<sockaddr_in&>(any.value).sin_addr.s_addr = htonl(INADDR_ANY);
  return any;
}

// When several peers send to one at once, switches drop the ends of bursts, and the kernel waits 200 ms
// before it sends them again: many times what a collective takes. On one network 16 ms are enough, provided
// that the other end does not delay its acknowledgements longer. Options of Linux 6.15; older kernels refuse
// them.
void resend_sooner(int fd) {
  constexpr int kRtoMinUs = 45, kDelackMaxUs = 46;  // TCP_RTO_MIN_US, TCP_DELACK_MAX_US
  const int delay_us = 8'000, resend_us = 16'000;
  if (::setsockopt(fd, IPPROTO_TCP, kDelackMaxUs, &delay_us, sizeof delay_us) == 0)
    ::setsockopt(fd, IPPROTO_TCP, kRtoMinUs, &resend_us, sizeof resend_us);
}

class TcpStream final : public Stream {
 public:
  TcpStream(Runtime& rt, Loop& loop, Fd socket) : socket_(rt, loop, std::move(socket)) {}
  ~TcpStream() override { close(); }

  Status start() {
    const int on = 1;
    ::setsockopt(socket_.fd(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    resend_sooner(socket_.fd());
    local_ = own_address(socket_.fd());
    return socket_.watch();
  }

  Task<Result<std::size_t>> read_some(MutByteView into, TimeNs deadline) override {
    if (into.empty()) co_return std::size_t{0};
    for (;;) {
      const auto got = try_read(std::span(&into, 1));
      if (!got.ok()) {
        if (ended_) co_return std::size_t{0};
        co_return got.status();
      }
      if (*got > 0) co_return *got;
      if (!co_await socket_.readable(deadline))
        co_return error(Code::kDeadline,
                        "[network] cannot read: nothing came from the peer before the deadline");
    }
  }

  Task<Status> write_all(ByteView bytes, TimeNs deadline) override {
    while (!bytes.empty()) {
      const auto put = try_write(std::span(&bytes, 1));
      if (!put.ok()) co_return put.status();
      bytes = bytes.subspan(*put);
      if (*put > 0) continue;
      if (!co_await socket_.writable(deadline))
        co_return error(Code::kDeadline, "[network] cannot write: the peer took no more before the deadline");
    }
    co_return Status();
  }

  Result<std::size_t> try_read(std::span<const MutByteView> into) override {
    if (!socket_.is_open()) return stream_lost("read", ESHUTDOWN);
    std::array<iovec, kMaxPieces> pieces;
    TR_CHECK(into.size() <= kMaxPieces, "{} pieces", into.size());
    for (std::size_t i = 0; i < into.size(); ++i) pieces[i] = {into[i].data(), into[i].size()};
    msghdr message{};
    message.msg_iov = pieces.data();
    message.msg_iovlen = into.size();
    const ssize_t got = socket_.receive(message, 0);
    if (got > 0) return static_cast<std::size_t>(got);
    if (got < 0 && errno == EAGAIN) return std::size_t{0};
    ended_ = true;  // a reset is an end too
    return stream_lost("read", got == 0 ? ECONNRESET : errno);
  }

  Result<std::size_t> try_write(std::span<const ByteView> from) override {
    if (!socket_.is_open()) return stream_lost("write", ESHUTDOWN);
    std::array<iovec, kMaxPieces> pieces;
    TR_CHECK(from.size() <= kMaxPieces, "{} pieces", from.size());
    for (std::size_t i = 0; i < from.size(); ++i)
      pieces[i] = {const_cast<std::byte*>(from[i].data()), from[i].size()};
    msghdr message{};
    message.msg_iov = pieces.data();
    message.msg_iovlen = from.size();
    const ssize_t put = socket_.send(message);
    if (put >= 0) return static_cast<std::size_t>(put);
    if (errno == EAGAIN) return std::size_t{0};
    return stream_lost("write", errno);
  }

  bool may_read() const override { return socket_.may_read(); }
  bool may_write() const override { return socket_.may_write(); }
  HostPort local_address() const override { return local_; }

  // A socket that is closed with bytes unread resets the connection, and the peer may lose what was sent
  // before: so what is there is thrown away first.
  void close() override {
    if (!socket_.is_open()) return;
    ended_ = true;
    msghdr message{};
    std::array<std::byte, 4096> scrap;
    iovec piece{scrap.data(), scrap.size()};
    message.msg_iov = &piece;
    message.msg_iovlen = 1;
    for (int i = 0; i < 1024 && socket_.receive(message, 0) > 0; ++i) {
    }
    socket_.close();
  }

 private:
  Socket socket_;
  HostPort local_;
  bool ended_ = false;
};

Result<std::unique_ptr<Stream>> make_tcp_stream(Runtime& rt, Loop& loop, Fd socket) {
  auto stream = std::make_unique<TcpStream>(rt, loop, std::move(socket));
  TR_RETURN_IF_ERROR(stream->start());
  return std::unique_ptr<Stream>(std::move(stream));
}

}  // namespace

Result<std::unique_ptr<Listener>> make_tcp_listener(Runtime& rt, Loop& loop, const HostPort& at,
                                                    bool insecure, const Resolve& resolve) {
  const std::string action = fmt::format("listen at '{}'", at.to_string());
  TR_ASSIGN_OR_RETURN(auto addresses, addresses_of(at, resolve));
  if (insecure && !is_address(at.host) && !means_loopback(at.host) &&
      std::all_of(addresses.begin(), addresses.end(), is_loopback))
    std::transform(addresses.begin(), addresses.end(), addresses.begin(), any_address);
  int failure = EADDRNOTAVAIL;
  for (const SocketAddress& address : addresses) {
    if (!insecure && !is_loopback(address))
      return error(Code::kUnavailable,
                   "[network] refused to listen at '{}': others could reach it and nothing is encrypted or "
                   "authenticated; listen at 127.0.0.1, or say --insecure on a network you trust",
                   at.to_string());
    Fd socket = make_socket(address.value.ss_family);
    if (!socket) return system_error("network", action, errno);
    const int on = 1;
    // A port whose last user ended a moment ago is free for us.
    ::setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    failure = bind_once(socket, address);
    if (failure != 0) continue;
    const HostPort own = own_address(socket.get());
    return make_socket_listener(rt, loop, std::move(socket), own.to_string(), own, make_tcp_stream, {});
  }
  return system_error("network", action, failure);
}

Task<Result<std::unique_ptr<Stream>>> connect_tcp(Runtime& rt, Loop& loop, HostPort to, TimeNs deadline,
                                                  const Resolve& resolve) {
  auto addresses = addresses_of(to, resolve);
  if (!addresses.ok()) co_return addresses.status();
  auto socket = co_await connect_socket(rt, loop, std::move(addresses).value(), to.to_string(), deadline);
  if (!socket.ok()) co_return socket.status();
  co_return make_tcp_stream(rt, loop, std::move(socket).value());
}

}  // namespace trireme::runtime::real
