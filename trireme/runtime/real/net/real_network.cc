#include "trireme/runtime/real/net/real_network.h"

#include "trireme/runtime/real/net/fabric.h"
#include "trireme/runtime/real/net/tcp_stream.h"
#include "trireme/runtime/real/net/unix_stream.h"
#include "trireme/runtime/real/segment.h"

namespace trireme::runtime::real {
namespace {

class RealNetwork final : public Network {
 public:
  RealNetwork(Runtime& rt, Loop& loop, std::shared_ptr<Fabric> fabric, Resolve resolve)
      : rt_(rt), loop_(loop), fabric_(std::move(fabric)), resolve_(std::move(resolve)) {}

  Result<std::unique_ptr<FabricEndpoint>> open_endpoint(int id) override { return fabric_->open(id, loop_); }
  Result<std::unique_ptr<Listener>> listen_local(const std::string& path) override {
    return make_unix_listener(rt_, loop_, path);
  }
  Task<Result<std::unique_ptr<Stream>>> connect_local(std::string path, TimeNs deadline) override {
    return connect_unix(rt_, loop_, std::move(path), deadline);
  }
  Result<std::unique_ptr<Listener>> listen_tcp(HostPort at, bool insecure) override {
    return make_tcp_listener(rt_, loop_, at, insecure, resolve_);
  }
  Task<Result<std::unique_ptr<Stream>>> connect_tcp(HostPort to, TimeNs deadline) override {
    return real::connect_tcp(rt_, loop_, std::move(to), deadline, resolve_);
  }
  Result<std::unique_ptr<SharedSegment>> create_segment(const std::string& name, std::size_t bytes) override {
    return MemorySegment::make(name, bytes);
  }
  Result<std::unique_ptr<Doorbell>> make_doorbell() override {
    TR_ASSIGN_OR_RETURN(auto bell, loop_.bell().duplicate());
    return std::unique_ptr<Doorbell>(std::move(bell));
  }
  void add_poller(Poller* poller) override { loop_.add_poller(poller); }
  void remove_poller(Poller* poller) override { loop_.remove_poller(poller); }

 private:
  Runtime& rt_;
  Loop& loop_;
  const std::shared_ptr<Fabric> fabric_;
  const Resolve resolve_;
};

}  // namespace

std::unique_ptr<Network> make_real_network(Runtime& rt, Loop& loop, std::shared_ptr<Fabric> fabric,
                                           Resolve resolve) {
  return std::make_unique<RealNetwork>(rt, loop, std::move(fabric), std::move(resolve));
}

}  // namespace trireme::runtime::real
