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

namespace {
Status local_only(std::string_view what) {
  return error(Code::kUnavailable, "[network] only local streams pass {}; use listen_local and connect_local",
               what);
}
Status tcp_only() {
  return error(Code::kUnavailable, "[network] a local stream has no form that does not wait; await it");
}
}  // namespace

Task<Status> Stream::send_segment(SharedSegment&, TimeNs) { co_return local_only("segments"); }
Task<Result<std::unique_ptr<SharedSegment>>> Stream::receive_segment(TimeNs) {
  co_return local_only("segments");
}
Task<Status> Stream::send_doorbell(Doorbell&, TimeNs) { co_return local_only("doorbells"); }
Task<Result<std::unique_ptr<Doorbell>>> Stream::receive_doorbell(TimeNs) {
  co_return local_only("doorbells");
}
Result<std::size_t> Stream::try_read(std::span<const MutByteView>) { return tcp_only(); }
Result<std::size_t> Stream::try_write(std::span<const ByteView>) { return tcp_only(); }

}  // namespace trireme::runtime
