#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <filesystem>

#include "trireme/base/hash.h"
#include "trireme/runtime/real/ready_waiters.h"
#include "trireme/runtime/real/unix_stream.h"

namespace trireme::runtime::real {
namespace {

struct Address {
  sockaddr_un value{};
  socklen_t size = 0;
  bool in_file_system = true;
};

// A path that does not fit into a socket address (107 bytes) becomes an abstract name from its hash: both
// ends come to the same one. SO_PEERCRED guards it as it guards the file.
Address address_of(const std::string& path) {
  Address a;
  a.value.sun_family = AF_UNIX;
  std::string name = path;
  if (path.size() >= sizeof a.value.sun_path) {
    name = "@trireme-" + sha256_hex(as_bytes(std::filesystem::absolute(path).lexically_normal().string()));
    name[0] = '\0';
    a.in_file_system = false;
  }
  std::memcpy(a.value.sun_path, name.data(), name.size());
  a.size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + name.size() + (a.in_file_system ? 1 : 0));
  return a;
}

Fd make_socket() { return Fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)); }

int connect_once(const Fd& socket, const Address& address) {
  const auto* where = reinterpret_cast<const sockaddr*>(&address.value);
  return ::connect(socket.get(), where, address.size) == 0 ? 0 : errno;
}

int bind_once(const Fd& socket, const Address& address) {
  const auto* where = reinterpret_cast<const sockaddr*>(&address.value);
  return ::bind(socket.get(), where, address.size) == 0 ? 0 : errno;
}

class UnixListener final : public Listener, Loop::FdHandler {
 public:
  UnixListener(Runtime& rt, Loop& loop, Fd socket, std::string path, bool in_file_system)
      : rt_(rt),
        loop_(loop),
        socket_(std::move(socket)),
        path_(std::move(path)),
        in_file_system_(in_file_system) {}
  ~UnixListener() override {
    loop_.unwatch(socket_.get(), this);
    if (in_file_system_) ::unlink(path_.c_str());
  }

  Status watch() { return loop_.watch(socket_.get(), EPOLLIN, this); }
  int fd() const { return socket_.get(); }

  Task<Result<std::unique_ptr<Stream>>> accept(TimeNs deadline) override {
    for (;;) {
      Fd peer(::accept4(socket_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
      if (peer) co_return make_unix_stream(rt_, loop_, std::move(peer));
      if (errno == EINTR || errno == ECONNABORTED) continue;
      if (errno != EAGAIN && errno != EWOULDBLOCK)
        co_return system_error("network", fmt::format("accept at '{}'", path_), errno);
      if (!co_await waiters_.wait(rt_, deadline))
        co_return error(Code::kDeadline, "[network] nobody connected to '{}' before the deadline", path_);
    }
  }

 private:
  void on_ready(std::uint32_t) override { waiters_.wake(); }

  Runtime& rt_;
  Loop& loop_;
  const Fd socket_;
  const std::string path_;
  const bool in_file_system_;
  ReadyWaiters waiters_;
};

}  // namespace

Result<std::unique_ptr<Listener>> make_unix_listener(Runtime& rt, Loop& loop, const std::string& path) {
  const std::string action = fmt::format("listen at '{}'", path);
  if (path.empty()) return error(Code::kInvalid, "[network] cannot listen: the path is empty");
  const Address address = address_of(path);
  Fd socket = make_socket();
  if (!socket) return system_error("network", action, errno);
  int failure = bind_once(socket, address);
  if (failure == EADDRINUSE && address.in_file_system &&
      connect_once(make_socket(), address) == ECONNREFUSED) {
    // The socket file of a process that died: nobody listens there any more.
    ::unlink(path.c_str());
    failure = bind_once(socket, address);
  }
  if (failure != 0) return system_error("network", action, failure);
  auto listener = std::make_unique<UnixListener>(rt, loop, std::move(socket), path, address.in_file_system);
  if (::listen(listener->fd(), 128) != 0) return system_error("network", action, errno);
  TR_RETURN_IF_ERROR(listener->watch());
  return std::unique_ptr<Listener>(std::move(listener));
}

Task<Result<std::unique_ptr<Stream>>> connect_unix(Runtime& rt, Loop& loop, std::string path,
                                                   TimeNs deadline) {
  if (path.empty()) co_return error(Code::kInvalid, "[network] cannot connect: the path is empty");
  const Address address = address_of(path);
  for (TimeNs pause = kMilli / 2;; pause = std::min(pause * 2, 20 * kMilli)) {
    Fd socket = make_socket();
    if (!socket) co_return system_error("network", fmt::format("connect to '{}'", path), errno);
    const int failure = connect_once(socket, address);
    if (failure == 0) co_return make_unix_stream(rt, loop, std::move(socket));
    const bool may_come =
        failure == ENOENT || failure == ECONNREFUSED || failure == EAGAIN || failure == EINTR;
    if (!may_come) co_return system_error("network", fmt::format("connect to '{}'", path), failure);
    if (rt.now() >= deadline)
      co_return error(Code::kDeadline, "[network] nobody listened at '{}' before the deadline: {}", path,
                      text_of_errno(failure));
    co_await rt.sleep_until(std::min(rt.now() + pause, deadline));
  }
}

}  // namespace trireme::runtime::real
