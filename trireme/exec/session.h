// Session: run any part of a Graph by names, without seeing how it is compiled.
//
//   auto session = make_session(rt, graph, {});
//   auto y = co_await session->run(feeds, {"logits", "conv1/relu"});
//
// A Session compiles once per (fetches, effects, feeds with their types), keeps what it compiled and replays
// it. Only what the fetches and effects need runs. Any edge can be fetched, and any edge can be fed: then
// what would have computed it does not run. Graphs that are templates (an unknown batch size) are specialised
// to the batch of the feeds.
//
// Results are copies: they belong to the caller and stay as they are when the Session runs again or goes.
// Feeds are read in place and must not change while the run is under way. Who needs neither copy nor look-up
// makes an Execution (executor.h).
//
// All of it on the loop of one Runtime. Runs may overlap, of the same fetches too: each has an Execution of
// its own, and they are numbered from 0 in the order in which they start. Runs that change variables are
// ordered by the caller, as are Sessions that share a container. A Session outlives its runs.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "trireme/exec/executor.h"

namespace trireme::exec {

using Feeds = std::map<std::string, Tensor>;  // by input or edge name

struct SessionOptions {
  int width = 1;  // kernel threads of every run
  std::map<std::string, std::string> kernels = {};
  std::vector<std::string> passes = {};  // of pass_table(), run in this order; none: the graph as it is
  std::shared_ptr<Containers> containers = {};  // null: its own
  std::string container = "main";               // where its variables are
  HostOps host_ops = {};
  Device* device = nullptr;  // for arenas, results and new variables; null: the host's memory
  bool profile = false;      // keep times, see profile()
  int max_compiled = 64;     // compiled graphs kept; the one used longest ago goes first
};

class Session {
 public:
  virtual ~Session() = default;

  // Runs what `fetches` and `effects` need and returns copies of the fetches in their order. `effects` are
  // edges that are computed for what they change (updates of variables); nothing is copied. A variable must
  // be in the container before it is read. One that the run assigns first is made.
  virtual runtime::Task<Result<std::vector<Tensor>>> run(Feeds feeds, std::vector<std::string> fetches,
                                                         std::vector<std::string> effects = {}) = 0;

  virtual Variables& variables() = 0;
  virtual const graph::Graph& graph() const = 0;
  virtual int num_compiled() const = 0;

  // What such a run will hold, without running it. Compiles if need be.
  virtual Result<MemoryReport> predict_memory(const std::map<std::string, TensorType>& feeds,
                                              const std::vector<std::string>& fetches,
                                              const std::vector<std::string>& effects = {}) = 0;
  // The profile of the Execution that ended a run last. kInvalid unless SessionOptions::profile.
  virtual Result<Profile> profile() const = 0;
};

// The graph is not changed and may be shared by many Sessions, in many threads.
Result<std::unique_ptr<Session>> make_session(runtime::Runtime& rt, std::shared_ptr<const graph::Graph> graph,
                                              SessionOptions options);

// For programs that only want results: a Session with a real Runtime of its own. Each call blocks the calling
// thread, which is the loop meanwhile. Not thread-safe.
class BlockingSession {
 public:
  // compute_threads 0: as many as the machine has cores.
  static Result<BlockingSession> make(graph::Graph graph, SessionOptions options = {},
                                      int compute_threads = 0);
  BlockingSession(BlockingSession&&) noexcept;
  BlockingSession& operator=(BlockingSession&&) noexcept;
  ~BlockingSession();

  Result<std::vector<Tensor>> run(Feeds feeds, std::vector<std::string> fetches,
                                  std::vector<std::string> effects = {});
  Result<Tensor> run_one(Feeds feeds, std::string fetch);
  Session& session() { return *session_; }
  Variables& variables() { return session_->variables(); }
  runtime::Runtime& runtime();

 private:
  struct Loop;
  BlockingSession(std::unique_ptr<Loop> loop, std::unique_ptr<Session> session);
  std::unique_ptr<Loop> loop_;  // outlives the session
  std::unique_ptr<Session> session_;
};

}  // namespace trireme::exec
