// What Unix and TCP sockets share: a watched, non-blocking descriptor, listening, and connecting with
// patience.
#pragma once

#include <sys/socket.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "trireme/runtime/network.h"
#include "trireme/runtime/real/fd.h"
#include "trireme/runtime/real/loop.h"
#include "trireme/runtime/real/ready_waiters.h"

namespace trireme::runtime::real {

struct SocketAddress {
  sockaddr_storage value{};
  socklen_t size = 0;
  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&value); }
};

Fd make_socket(int family);
int bind_once(const Fd& socket, const SocketAddress& address);     // 0 or errno
int connect_once(const Fd& socket, const SocketAddress& address);  // 0 or errno

// A connected socket on a loop. Not thread-safe.
class Socket final : Loop::FdHandler {
 public:
  Socket(Runtime& rt, Loop& loop, Fd fd) : rt_(rt), loop_(loop), fd_(std::move(fd)) {}
  ~Socket() override { close(); }
  Socket(const Socket&) = delete;
  Socket& operator=(const Socket&) = delete;

  Status watch();
  int fd() const { return fd_.get(); }
  bool is_open() const { return static_cast<bool>(fd_); }
  void close();  // wakes whoever waits

  // One system call: how many bytes, or -1 with `errno`; EAGAIN when nothing can be moved now.
  ssize_t receive(msghdr& message, int flags);
  ssize_t send(const msghdr& message);

  // False: the last call gave EAGAIN and the loop has seen nothing new.
  bool may_read() const { return may_read_; }
  bool may_write() const { return may_write_; }

  // False at the deadline. They may return early for no reason: try again.
  Task<bool> readable(TimeNs deadline) { return readers_.wait(rt_, deadline); }
  Task<bool> writable(TimeNs deadline) { return writers_.wait(rt_, deadline); }

 private:
  void on_ready(std::uint32_t events) override;

  Runtime& rt_;
  Loop& loop_;
  Fd fd_;
  bool may_read_ = true, may_write_ = true;
  ReadyWaiters readers_, writers_;
};

// "[network] cannot <action>: the peer closed the stream (<reason>)"
Status stream_lost(std::string_view action, int error_number);

using MakeStream = Result<std::unique_ptr<Stream>> (*)(Runtime& rt, Loop& loop, Fd socket);

// Listens on a bound socket. `where` is for errors; `closed` runs when the listener goes.
Result<std::unique_ptr<Listener>> make_socket_listener(Runtime& rt, Loop& loop, Fd bound, std::string where,
                                                       HostPort address, MakeStream make_stream,
                                                       Callback closed);

// Tries the addresses in turn until one accepts or the deadline passes.
Task<Result<Fd>> connect_socket(Runtime& rt, Loop& loop, std::vector<SocketAddress> addresses,
                                std::string where, TimeNs deadline);

}  // namespace trireme::runtime::real
