#include "trireme/exec/session.h"

#include <algorithm>
#include <set>

#include "trireme/exec/session_graph.h"
#include "trireme/graph/pass/passes.h"
#include "trireme/op/ops.h"

namespace trireme::exec {
namespace {

using graph::Graph;
using graph::Value;
using runtime::Task;
using Types = std::map<std::string, TensorType>;

// What one combination of feeds, fetches and effects compiles to.
struct Program {
  std::shared_ptr<const CompiledGraph> compiled;
  std::vector<std::string> inputs;               // those it needs
  std::vector<std::unique_ptr<Execution>> idle;  // of runs that ended
  std::int64_t last_use = 0;
};

std::string key_of(const Types& feeds, const std::vector<std::string>& fetches,
                   const std::vector<std::string>& effects) {
  std::string key;
  for (const std::string& name : fetches) key.append(name).push_back('\n');
  key += "\t\n";
  for (const std::string& name : effects) key.append(name).push_back('\n');
  for (const auto& [name, type] : feeds) key += fmt::format("\t{} {}\n", name, type.to_string());
  return key;
}

Types types_of(const Feeds& feeds) {
  Types types;
  for (const auto& [name, tensor] : feeds) types.emplace(name, tensor.type());
  return types;
}

// Results are row-major copies in memory of their own.
Result<Tensor> copy_out(const Tensor& from, Device& device) {
  TR_ASSIGN_OR_RETURN(Tensor copy,
                      Tensor::allocate(from.is_phantom() ? phantom_device() : device, from.type()));
  if (!from.is_phantom()) copy_to_contiguous(from, copy);
  return copy;
}

// True when nothing reads the variable before the run has written all of it.
bool is_assigned_first(const Graph& graph, Value variable) {
  for (std::int32_t i = 0; i < graph.size(); ++i) {
    const graph::Node& node = graph.node(i);
    const auto uses = std::count(node.inputs.begin(), node.inputs.end(), variable);
    if (uses > 0) return node.def == &op::kAssign && uses == 1 && node.inputs[0] == variable;
  }
  return false;
}

class SessionImpl final : public Session {
 public:
  SessionImpl(runtime::Runtime& rt, std::shared_ptr<const Graph> graph, SessionOptions options)
      : rt_(rt), graph_(std::move(graph)), options_(std::move(options)) {
    if (!options_.containers) options_.containers = std::make_shared<Containers>();
  }

  Task<Result<std::vector<Tensor>>> run(Feeds feeds, std::vector<std::string> fetches,
                                        std::vector<std::string> effects) override {
    const std::uint64_t number = num_runs_++;
    const Types types = types_of(feeds);
    TR_CO_ASSIGN_OR_RETURN(const std::shared_ptr<Program> program, find_program(types, fetches, effects));
    TR_CO_ASSIGN_OR_RETURN(std::unique_ptr<Execution> execution, take_execution(*program));
    for (const std::string& name : program->inputs)
      TR_CO_RETURN_IF_ERROR(execution->feed(name, feeds.at(name)));
    const RunOptions how{.number = number};
    Status status = co_await execution->run(how);
    if (!status.ok()) co_return status;
    std::vector<Tensor> results;
    for (const std::string& name : fetches) {
      TR_CO_ASSIGN_OR_RETURN(const Tensor value, execution->fetch(name));
      TR_CO_ASSIGN_OR_RETURN(Tensor copy, copy_out(value, device()));
      results.push_back(std::move(copy));
    }
    if (options_.profile) last_profile_ = *execution->profile();
    program->idle.push_back(std::move(execution));
    co_return results;
  }

  Variables& variables() override { return options_.containers->container(options_.container); }
  const Graph& graph() const override { return *graph_; }
  int num_compiled() const override { return static_cast<int>(programs_.size()); }

  Result<MemoryReport> predict_memory(const Types& feeds, const std::vector<std::string>& fetches,
                                      const std::vector<std::string>& effects) override {
    TR_ASSIGN_OR_RETURN(const std::shared_ptr<Program> program, find_program(feeds, fetches, effects));
    MemoryReport report = program->compiled->memory();
    report.feeds_bytes = 0;  // all that are given, needed or not
    for (const auto& [name, type] : feeds) report.feeds_bytes += static_cast<std::int64_t>(type.num_bytes());
    const Graph& compiled = program->compiled->graph();
    for (const std::string& name : fetches)
      report.results_bytes +=
          static_cast<std::int64_t>(compiled.type(*compiled.find_output(name)).num_bytes());
    return report;
  }

  Result<Profile> profile() const override {
    if (!options_.profile)
      return error(Code::kInvalid, "[exec] no profile was kept; set SessionOptions::profile");
    return last_profile_;
  }

 private:
  Device& device() const { return options_.device ? *options_.device : cpu_device(); }

  Result<std::shared_ptr<Program>> find_program(const Types& feeds, const std::vector<std::string>& fetches,
                                                const std::vector<std::string>& effects) {
    std::string key = key_of(feeds, fetches, effects);
    const auto at = programs_.find(key);
    if (at != programs_.end()) {
      at->second->last_use = ++uses_;
      return at->second;
    }
    TR_ASSIGN_OR_RETURN(std::shared_ptr<Program> program, make_program(feeds, fetches, effects));
    while (num_compiled() >= std::max(1, options_.max_compiled)) drop_oldest();
    program->last_use = ++uses_;
    programs_.emplace(std::move(key), program);
    return program;
  }

  Result<std::shared_ptr<Program>> make_program(const Types& feeds, const std::vector<std::string>& fetches,
                                                const std::vector<std::string>& effects) {
    TR_ASSIGN_OR_RETURN(const Graph needed,
                        session_graph(*graph_, {feeds, fetches, effects}, options_.passes));
    auto program = std::make_shared<Program>();
    for (std::int32_t i = 0; i < needed.size(); ++i)
      if (needed.node(i).def == &op::kInput) program->inputs.push_back(needed.node(i).attrs.get_text("name"));
    CompileOptions how{.width = options_.width, .kernels = options_.kernels};
    TR_ASSIGN_OR_RETURN(program->compiled, compile(needed, std::move(how)));
    return program;
  }

  void drop_oldest() {
    programs_.erase(std::min_element(programs_.begin(), programs_.end(), [](const auto& a, const auto& b) {
      return a.second->last_use < b.second->last_use;
    }));
  }

  // Results and effects of the last run stay in its Execution, so it is free for the next one.
  Result<std::unique_ptr<Execution>> take_execution(Program& program) {
    if (!program.idle.empty()) {
      std::unique_ptr<Execution> taken = std::move(program.idle.back());
      program.idle.pop_back();
      return taken;
    }
    TR_RETURN_IF_ERROR(make_assigned_variables(program.compiled->graph()));
    return make_execution(rt_, program.compiled,
                          {.variables = &variables(),
                           .host_ops = options_.host_ops,
                           .device = options_.device,
                           .profile = options_.profile});
  }

  Status make_assigned_variables(const Graph& graph) {
    for (const auto& [name, v] : graph.variables()) {
      if (variables().get(name).ok()) continue;
      if (!is_assigned_first(graph, v))
        return error(
            Code::kNotFound,
            "[exec] variable '{}' ({}) has no value in container '{}'; add it to variables() or run an "
            "assign to it first",
            name, graph.type(v).to_string(), options_.container);
      TR_ASSIGN_OR_RETURN(Tensor fresh,
                          Tensor::allocate(rt_.is_phantom() ? phantom_device() : device(), graph.type(v)));
      TR_RETURN_IF_ERROR(variables().add(name, std::move(fresh)));
    }
    return {};
  }

  runtime::Runtime& rt_;
  std::shared_ptr<const Graph> graph_;
  SessionOptions options_;
  std::map<std::string, std::shared_ptr<Program>> programs_;
  std::int64_t uses_ = 0;
  std::uint64_t num_runs_ = 0;
  Profile last_profile_;
};

}  // namespace

Result<std::unique_ptr<Session>> make_session(runtime::Runtime& rt, std::shared_ptr<const Graph> graph,
                                              SessionOptions options) {
  if (!graph) return error(Code::kInvalid, "[exec] a Session needs a graph, got none");
  if (options.width < 1)
    return error(Code::kInvalid, "[exec] width of a Session: got {}, expected at least 1", options.width);
  return std::unique_ptr<Session>(std::make_unique<SessionImpl>(rt, std::move(graph), std::move(options)));
}

}  // namespace trireme::exec
