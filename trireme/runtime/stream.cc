#include "trireme/runtime/network.h"

namespace trireme::runtime {

Task<Status> Stream::read_exact(MutByteView into, TimeNs deadline) {
  std::size_t done = 0;
  while (done < into.size()) {
    const Result<std::size_t> got = co_await read_some(into.subspan(done), deadline);
    if (!got.ok()) co_return got.status();
    if (*got == 0)
      co_return error(Code::kPeerLost, "[network] the stream ended early: got {} bytes, expected {}", done,
                      into.size());
    done += *got;
  }
  co_return Status();
}

}  // namespace trireme::runtime
