#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <filesystem>

#include "trireme/base/hash.h"
#include "trireme/runtime/real/net/socket.h"
#include "trireme/runtime/real/net/unix_stream.h"

namespace trireme::runtime::real {
namespace {

struct UnixAddress {
  SocketAddress socket;
  bool in_file_system = true;
};

// A path that does not fit into a socket address (107 bytes) becomes an abstract name from its hash: both
// ends come to the same one. SO_PEERCRED guards it as it guards the file.
UnixAddress address_of(const std::string& path) {
  UnixAddress a;
  sockaddr_un value{};
  value.sun_family = AF_UNIX;
  std::string name = path;
  if (path.size() >= sizeof value.sun_path) {
    name = "@trireme-" + sha256_hex(as_bytes(std::filesystem::absolute(path).lexically_normal().string()));
    name[0] = '\0';
    a.in_file_system = false;
  }
  std::memcpy(value.sun_path, name.data(), name.size());
  std::memcpy(&a.socket.value, &value, sizeof value);
  a.socket.size =
      static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + name.size() + (a.in_file_system ? 1 : 0));
  return a;
}

}  // namespace

Result<std::unique_ptr<Listener>> make_unix_listener(Runtime& rt, Loop& loop, const std::string& path) {
  const std::string action = fmt::format("listen at '{}'", path);
  if (path.empty()) return error(Code::kInvalid, "[network] cannot listen: the path is empty");
  const UnixAddress address = address_of(path);
  Fd socket = make_socket(AF_UNIX);
  if (!socket) return system_error("network", action, errno);
  int failure = bind_once(socket, address.socket);
  if (failure == EADDRINUSE && address.in_file_system &&
      connect_once(make_socket(AF_UNIX), address.socket) == ECONNREFUSED) {
    // The socket file of a process that died: nobody listens there any more.
    ::unlink(path.c_str());
    failure = bind_once(socket, address.socket);
  }
  if (failure != 0) return system_error("network", action, failure);
  Callback remove_file;
  if (address.in_file_system) remove_file = [path] { ::unlink(path.c_str()); };
  return make_socket_listener(rt, loop, std::move(socket), path, {}, make_unix_stream,
                              std::move(remove_file));
}

Task<Result<std::unique_ptr<Stream>>> connect_unix(Runtime& rt, Loop& loop, std::string path,
                                                   TimeNs deadline) {
  if (path.empty()) co_return error(Code::kInvalid, "[network] cannot connect: the path is empty");
  std::vector<SocketAddress> addresses(1, address_of(path).socket);
  auto socket = co_await connect_socket(rt, loop, std::move(addresses), path, deadline);
  if (!socket.ok()) co_return socket.status();
  co_return make_unix_stream(rt, loop, std::move(socket).value());
}

}  // namespace trireme::runtime::real
