// The parts of a virtual world: Core (clock, events, links, faults), VirtualNode (one Runtime), Machine (what
// its Runtimes share). Internal to runtime/virtual; world.h is the contract, docs/virtual_cluster.md the
// model.
//
// Life of a VirtualNode: running -> paused <-> running -> dead. A dead VirtualNode's events are dropped and
// its calls do nothing; a paused VirtualNode's events are held in order and the calls it still makes (in the
// callback during which the pause struck) are deferred until it continues. Frames and callbacks of a dead
// VirtualNode stay until the world is destroyed, since the kill may come from inside them.
#pragma once

#include <deque>
#include <list>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "trireme/base/hash.h"
#include "trireme/base/rng.h"
#include "trireme/cost/routes.h"
#include "trireme/runtime/files.h"
#include "trireme/runtime/network.h"
#include "trireme/runtime/processes.h"
#include "trireme/runtime/sync.h"
#include "trireme/runtime/virtual/compute.h"
#include "trireme/runtime/virtual/disk.h"
#include "trireme/runtime/virtual/event_queue.h"
#include "trireme/runtime/virtual/network_faults.h"
#include "trireme/runtime/virtual/world.h"

namespace trireme::runtime::virt {

class Core;
class LocalNetwork;
using RootProgram = std::function<Task<void>(Runtime&)>;
struct ListenerState;
struct ProcessState;

// Bytes that every endpoint message and stream write adds on the wire.
inline constexpr std::uint64_t kWireHeaderBytes = 48;

// One direction of a cable, or the bus inside a machine: used FIFO, busy until `free_at`.
struct Link {
  cost::LinkModel model;
  TimeNs free_at = 0;

  struct Use {
    TimeNs first_byte,
        end;  // the link is taken until `end`; the first byte leaves after the sender's overhead
  };
  Use take(TimeNs now, std::uint64_t bytes) {
    const TimeNs first = std::max(now, free_at) + model.message_overhead_ns;
    free_at = first + cost::transfer_time(bytes, model);
    return {first, free_at};
  }
  // An urgent message waits for the packet that is on its way, and for no more; what waits ends as much
  // later.
  Use take_urgent(TimeNs now, std::uint64_t bytes) {
    if (free_at <= now) return take(now, bytes);
    const TimeNs first = urgent_start(now) + model.message_overhead_ns;
    const TimeNs end = first + cost::transfer_time(bytes, model);
    free_at += end - first + model.message_overhead_ns;
    return {first, end};
  }
  // A later hop, for a message that arrives from `first_byte` to `last_byte`. The link is taken for the bytes
  // alone, so what comes in slower than it goes out leaves room for others; it ends when the link has done
  // its bytes and the last one is there, and begins as much earlier as it took to come in, or takes to go
  // out. Messages begin in the order in which they come: so those of a pair keep theirs.
  Use pass(TimeNs first_byte, TimeNs last_byte, std::uint64_t bytes) {
    const TimeNs work = cost::transfer_time(bytes, model);
    free_at = std::max(first_byte, free_at) + work;
    const TimeNs end = std::max(free_at, last_byte);
    last_begun = std::max({last_begun, first_byte, end - std::max(work, last_byte - first_byte)});
    return {last_begun, end};
  }
  Use pass_urgent(TimeNs first_byte, TimeNs last_byte, std::uint64_t bytes) {
    if (free_at <= first_byte) return pass(first_byte, last_byte, bytes);
    const TimeNs work = cost::transfer_time(bytes, model), first = urgent_start(first_byte);
    free_at += work;
    return {first, std::max(first + work, last_byte)};
  }
  TimeNs last_begun = 0;

 private:
  TimeNs urgent_start(TimeNs now) const {
    constexpr std::uint64_t kPacketBytes = 1500;
    return now + std::min(free_at - now, cost::transfer_time(kPacketBytes, model));
  }
};

struct Machine {
  Machine(Core& core, const cost::MachineModel& model, const cost::LinkModel& local_link)
      : local{.model = local_link}, cores(core, model) {}
  Link local;
  Cores cores;
  Disk disk;
  std::map<std::string, std::shared_ptr<ListenerState>> listeners;
  std::list<std::pair<std::string, OneShot<bool>*>> connecting;  // wait for somebody to listen
};

struct EndpointHandlers {
  std::function<void(int, Packet)> on_packet;
  std::function<void(int)> on_closed;
};

// One opening of an endpoint id; a later opening of the same id is another one.
struct EndpointState {
  struct Early {
    int from;
    Packet packet;
    bool closed;
  };
  int id = 0;
  VirtualNode* node = nullptr;
  bool open = true;
  std::uint32_t num_under_way = 0;  // packets from here
  std::uint32_t num_traffic = 0;    // packets from here and to here that are not urgent
  std::shared_ptr<EndpointHandlers> handlers;
  std::deque<Early> early;  // arrived before there were handlers
};

struct PacketInFlight {
  Packet packet;
  EndpointState *from = nullptr, *to = nullptr;
  std::uint64_t order = 0;  // of sending, over the whole world
  std::int64_t record = -1;
  TimeNs close_at =
      -1;  // >= 0: the sender closed; the notice follows this packet, at that time at the earliest
  bool lost = false;
};

// Where a message is; apart from the rest, since this is what every hop touches.
struct Flight {
  TimeNs last_byte = 0;  // when its last byte can be at `at` at the earliest
  std::uint64_t wire_bytes : 63 = 0;
  std::uint64_t urgent : 1 = 0;
  std::int32_t source = 0, target = 0;  // machines
  std::int32_t at = 0;                  // the vertex of the topology where its first byte arrives next
  std::int32_t node = 0;                // index of the Runtime it is for
};
static_assert(sizeof(Flight) == 32);

// A detached Task: owned by its VirtualNode's list, destroys itself at its end.
struct Detached {
  struct promise_type {
    template <typename... Args>
    explicit promise_type(VirtualNode& node, Args&...);
    ~promise_type();
    promise_type(const promise_type&) = delete;
    promise_type& operator=(const promise_type&) = delete;
    Detached get_return_object() { return {std::coroutine_handle<promise_type>::from_promise(*this)}; }
    std::suspend_always initial_suspend() noexcept { return {}; }
    std::suspend_never final_suspend() noexcept { return {}; }
    void return_void() {}
    void unhandled_exception() noexcept { std::terminate(); }
    VirtualNode& node;
    promise_type *previous = nullptr, *next = nullptr;
  };
  std::coroutine_handle<promise_type> handle;
};

class VirtualNode final : public Runtime {
 public:
  VirtualNode(Core& core, int index, int machine, std::string name);
  ~VirtualNode() override;

  const std::string& name() const override { return name_; }
  bool is_virtual() const override { return true; }
  bool is_phantom() const override;
  TimeNs now() const override;
  std::int64_t unix_time_ns() const override;
  void spawn(Task<void> task) override;
  void post(Callback fn) override;
  TimerId call_at(TimeNs when, Callback fn) override;
  void cancel_timer(TimerId id) override;
  void start_compute(ComputeRequest request) override;
  int compute_threads() const override;
  Activity activity() const override { return activity_; }
  Files& files() override { return *files_; }
  Network& network() override;
  Processes& processes() override { return *processes_; }
  void on_interrupt(Callback fn) override { interrupt_ = std::move(fn); }
  FaultAction fault_point(std::string_view site, std::uint64_t index) override;
  void log(std::string_view line) override;

  // Runs `action` now, after the pause, or never: as the VirtualNode's state says.
  template <typename Action>
  void act(Action&& action) {
    if (dead) return;
    if (paused)
      deferred.emplace_back(std::forward<Action>(action));
    else
      action();
  }
  Machine& machine() const;
  void start_root(Task<void> task);
  void start_detached(Detached detached);
  void destroy_tasks();
  void interrupt(int signal);

  Core& core;
  const int index;
  const int machine_index;

  bool dead = false, paused = false, draining = false;
  std::uint32_t pause_epoch = 0;
  std::vector<Callback> deferred;  // calls made while paused; run before `held`
  std::deque<EventRef> held;       // events that came while paused
  TimeNs muted_until = 0;
  double slow_factor = 1;
  std::vector<FaultSpec> faults;                    // not struck yet; those of time and of fault points
  FaultAction pending_action = FaultAction::kNone;  // of a timed miscall or error: for the next fault point

  int num_roots = 0;  // started Tasks that have not ended
  Detached::promise_type* first_task = nullptr;
  Activity activity_;
  std::uint64_t num_disk_ops = 0;
  std::vector<EndpointState*> endpoints;
  std::vector<std::string> log_lines;
  std::vector<std::shared_ptr<const RootProgram>> programs;  // of start_program
  std::shared_ptr<ProcessState> process;                     // when a parent spawned it
  std::shared_ptr<const VirtualProgram> program;             // keeps the closure of its coroutine
  std::unique_ptr<LocalNetwork> local_network;

 private:
  FaultAction strike(const FaultSpec& fault);

  std::string name_;
  std::unique_ptr<Files> files_;
  std::unique_ptr<Processes> processes_;
  Callback interrupt_;
};

template <typename... Args>
Detached::promise_type::promise_type(VirtualNode& n, Args&...) : node(n), next(n.first_task) {
  if (next) next->previous = this;
  node.first_task = this;
}
inline Detached::promise_type::~promise_type() {
  if (next) next->previous = previous;
  (previous ? previous->next : node.first_task) = next;
}

class Core final : public VirtualWorld {
 public:
  explicit Core(WorldSpec spec);
  ~Core() override;

  Runtime& add_runtime(int machine, std::string name) override { return add_node(machine, std::move(name)); }
  void start(Runtime& runtime, Task<void> task) override;
  void start_program(Runtime& runtime, RootProgram program) override;
  void set_program(VirtualProgram program) override;
  WorldReport run(TimeNs limit) override;
  bool is_dead(const Runtime& runtime) const override {
    return static_cast<const VirtualNode&>(runtime).dead;
  }
  const std::vector<MessageRecord>& messages() const override { return records_; }
  const std::vector<std::string>& log_of(const Runtime& runtime) const override {
    return static_cast<const VirtualNode&>(runtime).log_lines;
  }

  VirtualNode& add_node(int machine, std::string name);
  TimeNs now() const { return queue_.now(); }
  const WorldSpec& spec() const { return spec_; }
  Machine& machine(int index) { return *machines_[static_cast<std::size_t>(index)]; }
  const std::shared_ptr<const VirtualProgram>& program() const { return program_; }
  TraceHash& trace() { return trace_; }

  TimerId at(VirtualNode* node, TimeNs when, Label label, Callback fn) {
    return queue_.push_callback(node, when, label, std::move(fn));
  }
  void soon(VirtualNode* node, Label label, Callback fn) { at(node, now(), label, std::move(fn)); }
  void cancel(TimerId id) { queue_.cancel(id); }
  TimeNs jittered(TimeNs latency);

  // The links between two machines (paths.cc). `reserve` takes all of them at once, in the order of the
  // calls: for streams, whose writes are bounded by a window.
  struct Transfer {
    TimeNs sent;     // the first link is free again
    TimeNs arrival;  // the last byte is there; kForever: the connection is lost, at `lost_at`
    TimeNs lost_at;
  };
  Transfer reserve(int source, int target, std::uint64_t bytes);
  // Latency of the way, with jitter; the local link's inside a machine.
  TimeNs path_latency(int source, int target);
  cost::LinkModel path_model(int source, int target) { return routes_.path_model(source, target); }
  // Draws whether a file operation on `machine` fails now.
  bool disk_fails(int machine);
  std::uint64_t disk_capacity(int machine) const;

  // Faults and ends. `lose_files`: what the Runtime did not sync goes with it.
  void kill(VirtualNode& node);
  void end(VirtualNode& node, ExitStatus status, bool lose_files);
  void pause(VirtualNode& node, TimeNs duration);
  void resume(VirtualNode& node);
  void mute(VirtualNode& node, TimeNs duration);
  void slow(VirtualNode& node, double factor, TimeNs duration);
  void restart(VirtualNode& node, TimeNs after);
  void root_ended(VirtualNode& node);

  // Endpoints (endpoint.cc).
  Result<std::unique_ptr<FabricEndpoint>> open_endpoint(VirtualNode& node, int id);
  void send(EndpointState& from, int to, Packet packet, Callback sent);
  void close_endpoint(EndpointState& box);
  void deliver_early(EndpointState& box);

 private:
  struct Parked {
    EndpointState* from;
    Packet packet;
    Callback sent;
  };

  void dispatch(EventRef ref);
  void run_callback(std::uint32_t index);
  void drain(VirtualNode& node);
  void note(VirtualNode* node, std::uint64_t kind) { note(node ? node->index : -1, kind); }
  void note(int node, std::uint64_t kind);
  std::string describe_stuck() const;
  void schedule_fault(const FaultSpec& fault);

  void route(EndpointState& from, EndpointState& to, Packet packet, Callback sent);
  std::uint32_t take_message(EndpointState& from, EndpointState& to, Packet packet);
  // Takes the first link, for the rest of the way events. Gives when that link is through.
  TimeNs launch(std::uint32_t index, TimeNs extra, bool ordered);
  void lose_connection(EndpointState& a, EndpointState& b, TimeNs when);
  void damage(Packet& packet);
  TimeNs extra_latency(int source, int target);
  void arrive(std::uint32_t index);
  void deliver(std::uint32_t index);
  void release_message(std::uint32_t index);
  void notify_closed(EndpointState& closed, EndpointState& peer, TimeNs when);
  void hear_closed(EndpointState& closed, EndpointState& peer);
  TimeNs in_order(const PacketInFlight& message, TimeNs first, TimeNs flight);

  WorldSpec spec_;
  EventQueue queue_;
  TraceHash trace_;
  Philox random_, disk_random_;
  cost::Routes routes_;
  std::vector<Link> wires_;  // as routes_.links()
  bool jitters_ = false;
  NetworkChance chance_;
  std::vector<std::unique_ptr<Machine>> machines_;
  std::vector<std::unique_ptr<VirtualNode>> nodes_;
  std::shared_ptr<const VirtualProgram> program_;
  int roots_left_ = 0, restarts_left_ = 0;
  bool tearing_down_ = false;
  std::uint64_t num_events_ = 0, num_messages_ = 0, num_bytes_ = 0;

  std::vector<PacketInFlight> messages_;
  std::vector<Flight> flights_;  // as messages_
  std::vector<std::uint32_t> free_messages_;
  std::vector<std::unique_ptr<EndpointState>> boxes_;       // in order of opening
  std::unordered_map<int, EndpointState*> box_of_id_;       // the latest opening
  std::unordered_map<int, std::vector<Parked>> parked_;     // for ids that nobody has opened yet
  std::unordered_map<std::uint64_t, TimeNs> last_arrival_;  // per (from, to), only with jitter or faults
  std::unordered_set<std::uint64_t> lost_pairs_;            // connections that were given up, both ways
  std::vector<MessageRecord> records_;
};

// Factories of the other files in this folder.
std::unique_ptr<Files> make_virtual_files(VirtualNode& node);
std::unique_ptr<Processes> make_virtual_processes(VirtualNode& node);
void process_ended(const std::shared_ptr<ProcessState>& process, ExitStatus status);

}  // namespace trireme::runtime::virt
