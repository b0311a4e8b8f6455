#include "trireme/exec/session.h"
#include "trireme/runtime/real/real_runtime.h"

namespace trireme::exec {

struct BlockingSession::Loop {
  std::unique_ptr<runtime::RealRuntime> rt;
};

namespace {

runtime::Task<void> run_into(Session& session, Feeds feeds, std::vector<std::string> fetches,
                             std::vector<std::string> effects, Result<std::vector<Tensor>>& out) {
  runtime::Task<Result<std::vector<Tensor>>> task =
      session.run(std::move(feeds), std::move(fetches), std::move(effects));
  out = co_await task;
}

}  // namespace

BlockingSession::BlockingSession(std::unique_ptr<Loop> loop, std::unique_ptr<Session> session)
    : loop_(std::move(loop)), session_(std::move(session)) {}
BlockingSession::BlockingSession(BlockingSession&&) noexcept = default;
BlockingSession& BlockingSession::operator=(BlockingSession&&) noexcept = default;
BlockingSession::~BlockingSession() = default;

Result<BlockingSession> BlockingSession::make(graph::Graph graph, SessionOptions options,
                                              int compute_threads) {
  auto loop = std::make_unique<Loop>();
  runtime::RealOptions how;
  how.compute_threads = compute_threads;
  loop->rt = runtime::make_real_runtime(std::move(how));
  TR_ASSIGN_OR_RETURN(
      auto session,
      make_session(*loop->rt, std::make_shared<const graph::Graph>(std::move(graph)), std::move(options)));
  return BlockingSession(std::move(loop), std::move(session));
}

Result<std::vector<Tensor>> BlockingSession::run(Feeds feeds, std::vector<std::string> fetches,
                                                 std::vector<std::string> effects) {
  Result<std::vector<Tensor>> out = std::vector<Tensor>();
  loop_->rt->run(run_into(*session_, std::move(feeds), std::move(fetches), std::move(effects), out));
  return out;
}

Result<Tensor> BlockingSession::run_one(Feeds feeds, std::string fetch) {
  std::vector<std::string> fetches;
  fetches.push_back(std::move(fetch));
  TR_ASSIGN_OR_RETURN(std::vector<Tensor> results, run(std::move(feeds), std::move(fetches)));
  return std::move(results[0]);
}

runtime::Runtime& BlockingSession::runtime() { return *loop_->rt; }

}  // namespace trireme::exec
