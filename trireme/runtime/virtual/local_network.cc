// Listening and connecting, inside a machine by a path and over TCP by host and port; segments, doorbells and
// pollers.
#include "trireme/runtime/virtual/local_network.h"

#include <sys/mman.h>

#include <algorithm>
#include <charconv>

#include "trireme/runtime/virtual/streams.h"

namespace trireme::runtime::virt {
namespace {

constexpr std::string_view kHostPrefix = "machine-";
constexpr int kFirstFreePort = 32768, kLastPort = 65535;

class VirtualListener final : public Listener {
 public:
  VirtualListener(std::string path, std::shared_ptr<ListenerState> state)
      : path_(std::move(path)), state_(std::move(state)) {}
  ~VirtualListener() override {
    auto& listeners = state_->node.machine().listeners;
    const auto found = listeners.find(path_);
    if (found != listeners.end() && found->second == state_) listeners.erase(found);
    if (state_->node.dead) return;
    state_->gone = true;
    for (const auto& end : state_->ready) end->close();
  }

  Task<Result<std::unique_ptr<Stream>>> accept(TimeNs deadline) override {
    return accept_on(state_, deadline);
  }
  HostPort address() const override { return state_->address; }

 private:
  static Task<Result<std::unique_ptr<Stream>>> accept_on(std::shared_ptr<ListenerState> state,
                                                         TimeNs deadline) {
    while (state->ready.empty()) {
      OneShot<bool> shot(state->node);
      struct Waits {
        ListenerState& state;
        ~Waits() { state.waiter = nullptr; }
      } const waits{*state};
      state->waiter = &shot;
      if (!co_await shot.wait_until(deadline))
        co_return error(Code::kDeadline, "[runtime] '{}' accepted no connection until its deadline",
                        state->node.name());
    }
    std::unique_ptr<Stream> stream = make_virtual_stream(std::move(state->ready.front()));
    state->ready.pop_front();
    co_return std::move(stream);
  }

  std::string path_;
  std::shared_ptr<ListenerState> state_;
};

std::string tcp_name(std::uint16_t port) { return fmt::format("tcp:{}", port); }

bool is_loopback(const std::string& host) {
  return host == "localhost" || host == "::1" || host.rfind("127.", 0) == 0;
}
bool is_any(const std::string& host) { return host == "0.0.0.0" || host == "::"; }

// The machine that a host name means to a Runtime of `own`.
Result<int> machine_of(const std::string& host, int own, int num_machines) {
  if (is_loopback(host)) return own;
  int index = 0;
  const std::string_view digits = std::string_view(host).substr(std::min(host.size(), kHostPrefix.size()));
  const bool named = host.rfind(kHostPrefix, 0) == 0;
  const auto [end, failure] = std::from_chars(digits.data(), digits.data() + digits.size(), index);
  if (!named || failure != std::errc() || end != digits.data() + digits.size() || index < 0 ||
      index >= num_machines)
    return error(Code::kNotFound, "[runtime] no such host: got '{}', expected localhost or machine-0..{}",
                 host, num_machines - 1);
  return index;
}

// Who listens at a loopback address is not heard by other machines.
std::shared_ptr<ListenerState> find_listener(const Machine& machine, const std::string& path, bool same) {
  const auto found = machine.listeners.find(path);
  if (found == machine.listeners.end() || (!same && is_loopback(found->second->address.host))) return nullptr;
  return found->second;
}

}  // namespace

Result<std::unique_ptr<Listener>> LocalNetwork::listen(const std::string& path, HostPort address) {
  if (node_.dead) return error(Code::kUnavailable, "[runtime] '{}' is dead: it cannot listen", node_.name());
  Machine& machine = node_.machine();
  auto& slot = machine.listeners[path];
  if (slot)
    return error(Code::kExists, "[runtime] '{}' is taken: '{}' listens there; use another path", path,
                 slot->node.name());
  slot = std::make_shared<ListenerState>(node_);
  slot->address = std::move(address);
  for (auto& [wanted, shot] : machine.connecting)
    if (wanted == path) shot->set(true);
  return std::unique_ptr<Listener>(std::make_unique<VirtualListener>(path, slot));
}

Result<std::unique_ptr<Listener>> LocalNetwork::listen_local(const std::string& path) {
  return listen(path, {});
}

Result<std::unique_ptr<Listener>> LocalNetwork::listen_tcp(HostPort at, bool insecure) {
  if (!is_loopback(at.host) && !insecure)
    return error(Code::kUnavailable,
                 "[runtime] refused to listen at '{}': others could reach it and nothing is encrypted or "
                 "authenticated; listen at localhost, or say --insecure on a network you trust",
                 at.to_string());
  if (!is_any(at.host)) {
    TR_ASSIGN_OR_RETURN(const int machine,
                        machine_of(at.host, node_.machine_index,
                                   static_cast<int>(node_.core.spec().topology.machines.size())));
    if (machine != node_.machine_index)
      return error(Code::kUnavailable, "[runtime] cannot listen at '{}': '{}' is on {}{}", at.to_string(),
                   node_.name(), kHostPrefix, node_.machine_index);
  }
  if (at.port == 0) {
    const auto& taken = node_.machine().listeners;
    int port = kFirstFreePort;
    while (port <= kLastPort && taken.count(tcp_name(static_cast<std::uint16_t>(port))) != 0) ++port;
    if (port > kLastPort) return error(Code::kExhausted, "[runtime] no free port on this machine");
    at.port = static_cast<std::uint16_t>(port);
  }
  return listen(tcp_name(at.port), at);
}

Task<Result<std::unique_ptr<Stream>>> LocalNetwork::connect_local(std::string path, TimeNs deadline) {
  return connect(node_.machine_index, std::move(path), deadline, false);
}

Task<Result<std::unique_ptr<Stream>>> LocalNetwork::connect_tcp(HostPort to, TimeNs deadline) {
  const auto machine =
      machine_of(to.host, node_.machine_index, static_cast<int>(node_.core.spec().topology.machines.size()));
  if (!machine.ok()) co_return machine.status();
  co_return co_await connect(*machine, tcp_name(to.port), deadline, true);
}

Task<Result<std::unique_ptr<Stream>>> LocalNetwork::connect(int machine_index, std::string path,
                                                            TimeNs deadline, bool tcp) {
  Machine& machine = node_.core.machine(machine_index);
  std::shared_ptr<ListenerState> listener;
  while (!(listener = find_listener(machine, path, machine_index == node_.machine_index))) {
    OneShot<bool> shot(node_);
    struct Waits {
      Machine& machine;
      std::list<std::pair<std::string, OneShot<bool>*>>::iterator entry;
      ~Waits() { machine.connecting.erase(entry); }
    } const waits{machine, machine.connecting.insert(machine.connecting.end(), {path, &shot})};
    if (!co_await shot.wait_until(deadline))
      co_return error(Code::kDeadline, "[runtime] nobody listened at '{}' until the deadline of '{}'", path,
                      node_.name());
  }
  auto mine = std::make_shared<StreamEnd>(node_, tcp),
       theirs = std::make_shared<StreamEnd>(listener->node, tcp);
  StreamEnd::join(mine, theirs);
  const TimeNs latency = path_between(node_, listener->node).latency_ns;
  const TimeNs arrival = node_.now() + latency;
  mine->last_arrival = theirs->last_arrival = arrival;
  const std::string own_host = fmt::format("{}{}", kHostPrefix, node_.machine_index);
  const bool loopback = is_loopback(listener->address.host);
  mine->local.host = loopback ? listener->address.host : own_host;
  theirs->local = listener->address;
  add_stream(mine);
  listener->node.local_network->add_stream(theirs);
  node_.core.at(&listener->node, arrival, Label::kStream, [listener, theirs] {
    if (listener->gone) return theirs->close();
    listener->ready.push_back(theirs);
    if (listener->waiter != nullptr) listener->waiter->set(true);
  });
  // The peer end lives in the event above until it is accepted.
  std::unique_ptr<Stream> stream = make_virtual_stream(mine);
  const TimeNs heard = tcp ? arrival + latency : arrival;  // a TCP connection is there after a round trip
  co_await node_.sleep_until(heard);
  co_return std::move(stream);
}

Result<std::unique_ptr<SharedSegment>> LocalNetwork::create_segment(const std::string& name,
                                                                    std::size_t bytes) {
  // Untouched pages take no memory, so a run of many ranks pays for what it touches only.
  void* at = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (at == MAP_FAILED)
    return error(Code::kExhausted, "[runtime] no memory for the segment '{}' of {}", name,
                 format_bytes(bytes));
  std::shared_ptr<void> block(at, [bytes](void* p) { munmap(p, bytes); });
  auto* first = static_cast<std::byte*>(at);
  return std::unique_ptr<SharedSegment>(
      std::make_unique<VirtualSegment>(std::shared_ptr<std::byte>(std::move(block), first), bytes));
}

Result<std::unique_ptr<Doorbell>> LocalNetwork::make_doorbell() {
  return std::unique_ptr<Doorbell>(std::make_unique<VirtualDoorbell>(node_, node_));
}

void LocalNetwork::add_poller(Poller* poller) {
  pollers_.push_back(poller);
  poll_after(0);
}

void LocalNetwork::remove_poller(Poller* poller) { std::erase(pollers_, poller); }

void LocalNetwork::poll_after(TimeNs delay) {
  if (poll_pending_ || node_.dead) return;
  poll_pending_ = true;
  node_.core.at(&node_, node_.now() + delay, Label::kPoll, [this] {
    poll_pending_ = false;
    poll();
  });
}

void LocalNetwork::poll() {
  bool progress = false;
  // A poller may add or remove pollers, itself included.
  const std::vector<Poller*> round = pollers_;
  for (Poller* poller : round)
    if (std::find(pollers_.begin(), pollers_.end(), poller) != pollers_.end())
      progress |= poller->poll_on_loop();
  if (progress) poll_after(0);
}

void LocalNetwork::add_stream(std::weak_ptr<StreamEnd> end) {
  std::erase_if(streams_, [](const std::weak_ptr<StreamEnd>& s) { return s.expired(); });
  streams_.push_back(std::move(end));
}

void LocalNetwork::node_ended() {
  for (const std::weak_ptr<StreamEnd>& weak : streams_)
    if (const std::shared_ptr<StreamEnd> end = weak.lock()) end->close();
  std::erase_if(node_.machine().listeners,
                [this](const auto& entry) { return &entry.second->node == &node_; });
}

}  // namespace trireme::runtime::virt
