#include "trireme/server/server.h"

#include "trireme/server/service.h"

namespace trireme::server {
namespace {

class ServerOfRank final : public Server {
 public:
  explicit ServerOfRank(std::shared_ptr<Service> service) : service_(std::move(service)) {}
  ~ServerOfRank() override { service_->close(); }
  ServerStats stats() const override { return service_->stats(); }
  std::vector<std::pair<std::string, Tensor>> state() const override { return service_->state(); }
  runtime::Task<Status> settle() override { return settle_service(service_); }

 private:
  static runtime::Task<Status> settle_service(std::shared_ptr<Service> service) {
    co_return co_await service->settle();
  }
  const std::shared_ptr<Service> service_;
};

Status check(const ServerOptions& options) {
  TR_RETURN_IF_ERROR(check_consistency(options.clocks));
  if (options.server < 0 || options.server >= options.layout.num_servers)
    return error(Code::kInvalid, "[server] server {} of a layout of {}", options.server,
                 options.layout.num_servers);
  for (const Slice& s : options.layout.slices)
    if (s.key >= options.keys.size())
      return error(Code::kInvalid,
                   "[server] the layout has key {}: got {} keys, expected those it was made of", s.key,
                   options.keys.size());
  return {};
}

}  // namespace

Result<std::unique_ptr<Server>> make_server(runtime::Runtime& rt, comm::Mailbox& mail,
                                            ServerOptions options) {
  TR_RETURN_IF_ERROR(check(options));
  TR_ASSIGN_OR_RETURN(const ConsistencyRow* row, find_consistency(options.consistency));
  auto service = std::make_shared<Service>(rt, mail, std::move(options), *row);
  TR_RETURN_IF_ERROR(service->make_slices());
  service->open();
  return std::unique_ptr<Server>(std::make_unique<ServerOfRank>(std::move(service)));
}

}  // namespace trireme::server
