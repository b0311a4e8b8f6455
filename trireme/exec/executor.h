// Executor: compiles a Graph once to a static plan, then replays it with no allocation.
//
// Vocabulary. A *strand* is a run of nodes executed back to back on one compute request; strands form a
// dependency graph. Strands end where the outside world looks in: before and after host ops, and after a node
// that makes a notified output final. So a host op suspends only its dependents and holds no thread, and a
// gradient leaves while backward still runs.
//
// A graph may be cut into *phases*, each with some of its outputs: forward, backward and weight gradients of
// a segment of a net. A run does all of them one after the other, or one, and between two phases of an
// Execution others may run theirs. What lives across phases is in the arena of its Execution; everything else
// is in scratch memory, which Executions that take turns can share.
//
// CompiledGraph is immutable and shared (by the shards of a worker, by the ranks of a virtual cluster). An
// Execution is one instance: arena, feeds and run state; run() is not reentrant, different Executions run at
// the same time.
#pragma once

#include <map>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "trireme/cost/op_times.h"
#include "trireme/exec/device_mirror.h"
#include "trireme/exec/host_op.h"
#include "trireme/exec/memory_report.h"
#include "trireme/exec/profile.h"
#include "trireme/graph/graph.h"
#include "trireme/runtime/runtime.h"
#include "trireme/tensor/tensor.h"

namespace trireme::exec {

class DeviceAhead;  // device_ahead.h
class DeviceQueue;  // device_queue.h

// Persistent tensors by name, shared by runs. A container of its own per model replica; not locked: who
// writes while others read orders it himself.
class Variables {
 public:
  Status add(std::string name, Tensor tensor);  // kExists
  Result<Tensor> get(std::string_view name) const;
  std::vector<std::string> names() const;  // sorted

 private:
  std::map<std::string, Tensor, std::less<>> tensors_;
};

// Containers of Variables by name, shared by sessions of one loop. Not locked.
class Containers {
 public:
  Variables& container(std::string_view name);  // made empty when it is new; the address stays
  std::vector<std::string> names() const;       // sorted

 private:
  std::map<std::string, Variables, std::less<>> containers_;
};

// Asks for a notice when output `output` is final: written, and no later node of the run reads variable
// `variable`.
struct Notice {
  std::string output;
  std::string variable;  // may be empty
  // Not -1: instead, when everything has ended that waits for this gate (an index into
  // CompileOptions::gates).
  int after_gate = -1;
};

// Memory that somebody else may still be using when a run starts: what reads one of these variables or writes
// one of these outputs, and what comes after that in its lane, waits until the gate is open.
struct VariableGate {
  enum class Readers : std::uint8_t { kAll, kUpTo, kBehind };
  std::vector<std::string> variables;
  // Which of those that read them: all, or those up to and behind the node that makes output `split`.
  Readers readers = Readers::kAll;
  std::string split = {};
  // Bound outputs whose memory is somebody else's until then: what writes one of them waits too.
  std::vector<std::string> outputs = {};
};

struct CompileOptions {
  std::vector<std::string> fetches = {};  // outputs of the graph to compute; empty: all
  std::vector<std::string> bound = {};    // fetches whose memory the caller gives to each Execution
  std::vector<Notice> notices = {};
  int width = 1;  // kernel threads (slices) of every strand
  // From a plan: op name -> kernel name, or "op:node" -> kernel name for a node that differs. Others: the
  // best here.
  std::map<std::string, std::string> kernels = {};
  bool strict_kernels = false;  // every op must be named in `kernels`
  std::vector<VariableGate> gates = {};
  // The GPU whose kernels run the graph; null: the host. Executions then keep their arena there, and tensors
  // of the host (variables, feeds, bound outputs) are copied in before they are read and out after they are
  // written.
  std::shared_ptr<Device> device = nullptr;
  bool tf32 = false;  // on a GPU: f32 products may round their operands to tf32
  // The outputs of each phase; a phase may have none and then does nothing. A node runs in the first phase
  // with an output that needs it. Every fetch is in exactly one of them. Empty: no phases.
  std::vector<std::vector<std::string>> phases = {};
};

// When things of a run come, for predictions: the costs of its strands in order, and the strands that the
// outside world has to do with.
struct Outline {
  std::vector<cost::OpCost> strands;
  std::vector<std::int32_t> notice_after;  // per notice: the last strand that it waits for; -1: none
  std::vector<std::int32_t> gate_before;   // per gate: the first strand that waits for it; -1: none
  std::vector<std::int32_t> phase_of;      // per strand, ascending; empty without phases
};

class CompiledGraph {
 public:
  virtual ~CompiledGraph() = default;
  virtual const graph::Graph& graph() const = 0;   // after dead code elimination
  virtual std::int64_t arena_bytes() const = 0;    // of each Execution
  virtual std::int64_t scratch_bytes() const = 0;  // what one phase alone uses; 0 without phases
  virtual int num_phases() const = 0;              // 1 without phases
  // What the nodes and outputs of a phase read; some of it may be read by earlier phases too.
  virtual std::vector<std::string> inputs_of_phase(int phase) const = 0;
  // Variables whose memory nodes of the phase read or write.
  virtual std::set<std::string> variables_of_phase(int phase) const = 0;
  virtual cost::OpCost phase_cost(int phase) const = 0;
  virtual cost::OpCost cost() const = 0;
  virtual std::map<std::string, std::string> kernels()
      const = 0;  // chosen, as CompileOptions::kernels, for the plan
  virtual int num_strands() const = 0;
  virtual Outline outline() const = 0;
  // The nodes of a strand of the outline that run kernels, in order, with all that their times depend on: the
  // same text on every rank. Empty on a GPU.
  virtual cost::Work strand_work(std::int32_t strand) const = 0;
  virtual std::vector<std::pair<std::string, TensorType>> bound_outputs() const = 0;  // CompileOptions::bound
  // Whether a notice can come only after a gate has been opened.
  virtual bool is_behind(int notice, int gate) const = 0;
  virtual MemoryReport memory() const = 0;  // of one Execution, before it exists
  virtual std::string to_text() const = 0;  // strands, nodes, places
};

Result<std::shared_ptr<const CompiledGraph>> compile(const graph::Graph& graph, CompileOptions options);

struct RunOptions {
  // Names this run in host calls. Ranks that run parts of one program give the same number to the runs that
  // belong together; runs that overlap have different numbers.
  std::uint64_t number = 0;
  TimeNs deadline = kForever;  // on rt.now(); a run that lasts longer is cancelled with kDeadline
  // Runs this phase alone; -1: all of them. Phases follow each other from 0 on, each once; phase 0 may begin
  // anew at any time. After a phase that failed only phase 0 can run.
  int phase = -1;
};

class Execution {
 public:
  virtual ~Execution() = default;
  // Feeds are by reference: the tensor must stay valid and unchanged during run(), and from the first phase
  // that reads it to the end of the last one that does. Type must match exactly. An input must be there when
  // the first phase that reads it runs.
  virtual Status feed(std::string_view input, Tensor value) = 0;
  // From now on the variables lie elsewhere: same names and types. Between runs, and between the phases of
  // one, whose values stay as they are. Not on a GPU (kInvalid).
  virtual Status rebind(const Variables& variables) = 0;
  // Runs once. The first failing host op ends the run: strands not started are dropped, host calls under way
  // are cancelled, and everything that runs is drained.
  virtual runtime::Task<Status> run(RunOptions options) = 0;
  runtime::Task<Status> run() { return run(RunOptions{}); }
  // Opens gate `gate` (an index into CompileOptions::gates) for the run under way, or for the next one. All
  // gates close when a run ends, but a phase that ends well leaves those as they are that nothing of it waits
  // for. Opening an open gate does nothing.
  virtual void open(int gate) = 0;
  // Ends the run under way with `why`, as a failing host op would; also where only closed gates are waited
  // for.
  virtual void cancel(Status why) = 0;
  // Called on the loop whenever nothing of a run computes and gates are closed.
  virtual void on_held(Function<void()> listener) = 0;
  // How long nothing of the last run could run because gates were closed.
  virtual TimeNs held_ns() const = 0;
  // How long the last run stood because nothing but host ops was under way.
  virtual TimeNs met_ns() const = 0;
  // A fetched output after run(), in host memory; valid until the next run, or until phase 0 runs again.
  virtual Result<Tensor> fetch(std::string_view output) const = 0;
  // Called on the loop during run() with the index into CompileOptions::notices. The event (may be null) is
  // the point in the device's stream where the value is there.
  virtual void on_notice(Function<void(int notice, std::shared_ptr<Event> ready)> listener) = 0;
  // Times of all runs so far. kInvalid unless ExecutionOptions::profile is set.
  virtual Result<Profile> profile() const = 0;
};

struct ExecutionOptions {
  Variables* variables = nullptr;  // must hold every variable of the graph
  // Memory for CompileOptions::bound. It stays as a phase left it until the last one that reads the value.
  std::map<std::string, Tensor> bindings = {};
  HostOps host_ops = {};     // implementations for the host ops in the graph
  Device* device = nullptr;  // where the arena lives; null: the host's memory
  // Memory of that device, at least scratch_bytes() of it, 64-byte aligned. Executions share it that never
  // run at the same time (on a GPU: with a queue, the same one); what is in there may change between two
  // phases. Null: the Execution's own.
  Buffer scratch = {};
  bool profile = false;            // time every node; costs two clock readings each
  DeviceMirror* mirror = nullptr;  // on a GPU: tensors of the host that are there already; used by feed() too
  DeviceAhead* ahead = nullptr;    // on a GPU: feeds that travel there before they are used
  // On a GPU: not null, and run() ends when its work is on the queue, behind what was put there before.
  // Values are there when the event of their notice is reached, and after queue->wait(). Feeds in page-locked
  // memory that do not travel ahead must stay as they are until then, others need not.
  std::shared_ptr<DeviceQueue> queue = nullptr;
};

// On a phantom Runtime the arena is phantom and no kernel runs; time advances by the strands' costs.
Result<std::unique_ptr<Execution>> make_execution(runtime::Runtime& rt,
                                                  std::shared_ptr<const CompiledGraph> compiled,
                                                  ExecutionOptions options);

}  // namespace trireme::exec
