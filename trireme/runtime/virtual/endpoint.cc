// Endpoints: who may send to whom, what waits, who hears of a close. paths.cc carries the packets.
#include "trireme/runtime/urgent.h"
#include "trireme/runtime/virtual/core.h"

namespace trireme::runtime::virt {
namespace {

class VirtualEndpoint final : public FabricEndpoint {
 public:
  VirtualEndpoint(Core& core, EndpointState& box) : core_(core), box_(box) {}
  ~VirtualEndpoint() override {
    box_.node->act([core = &core_, box = &box_] { core->close_endpoint(*box); });
  }
  int id() const override { return box_.id; }
  void send(int to, Packet packet) override { send(to, std::move(packet), {}); }
  void send(int to, Packet packet, Callback sent) override {
    if (!box_.node->paused) {
      if (!box_.node->dead) core_.send(box_, to, std::move(packet), std::move(sent));
      return;
    }
    box_.node->act(
        [core = &core_, box = &box_, to, packet = std::move(packet), sent = std::move(sent)]() mutable {
          core->send(*box, to, std::move(packet), std::move(sent));
        });
  }
  void set_handlers(std::function<void(int, Packet)> on_packet, std::function<void(int)> on_closed) override {
    box_.handlers =
        std::make_shared<EndpointHandlers>(EndpointHandlers{std::move(on_packet), std::move(on_closed)});
    if (!box_.early.empty())
      core_.soon(box_.node, Label::kPost, [core = &core_, box = &box_] { core->deliver_early(*box); });
  }
  bool has_traffic() const override { return box_.num_traffic > 0; }

 private:
  Core& core_;
  EndpointState& box_;
};

std::uint64_t pair_key(const EndpointState& from, const EndpointState& to) {
  return (static_cast<std::uint64_t>(static_cast<std::uint32_t>(from.id)) << 32) |
         static_cast<std::uint32_t>(to.id);
}

}  // namespace

Result<std::unique_ptr<FabricEndpoint>> Core::open_endpoint(VirtualNode& node, int id) {
  if (node.dead) return error(Code::kUnavailable, "[runtime] '{}' is dead: it opens no mailbox", node.name());
  EndpointState*& latest = box_of_id_[id];
  if (latest != nullptr && latest->open)
    return error(Code::kExists, "[runtime] mailbox {} is open already, by '{}'; use another id", id,
                 latest->node->name());
  boxes_.push_back(std::make_unique<EndpointState>());
  latest = boxes_.back().get();
  latest->id = id;
  latest->node = &node;
  node.endpoints.push_back(latest);
  if (auto waiting = parked_.extract(id); !waiting.empty())
    for (Parked& p : waiting.mapped())
      if (!p.from->node->dead) route(*p.from, *latest, std::move(p.packet), std::move(p.sent));
  return std::unique_ptr<FabricEndpoint>(std::make_unique<VirtualEndpoint>(*this, *latest));
}

void Core::send(EndpointState& from, int to, Packet packet, Callback sent) {
  if (!from.open) return;
  const auto found = box_of_id_.find(to);
  if (found == box_of_id_.end()) {
    parked_[to].push_back({&from, std::move(packet), std::move(sent)});
  } else {
    route(from, *found->second, std::move(packet), std::move(sent));
  }
}

void Core::route(EndpointState& from, EndpointState& to, Packet packet, Callback sent) {
  Fate fate;
  const int source = from.node->machine_index, target = to.node->machine_index;
  if (chance_.any() && source != target) {
    if (lost_pairs_.count(pair_key(from, to)) > 0) {
      if (sent) soon(from.node, Label::kSent, std::move(sent));
      return;
    }
    fate = chance_.decide(now(), source, target, chance_.raw(), routes_);
    if (fate.lost && !chance_.raw()) lose_connection(from, to, now() + fate.extra);
    if (fate.damaged) damage(packet);
  }
  Packet copy;
  if (fate.twice) copy = packet;
  const std::uint32_t index = take_message(from, to, std::move(packet));
  messages_[index].lost |= fate.lost;
  const TimeNs free_at = launch(index, fate.extra, !fate.overtaken);
  if (fate.twice) {
    const std::uint32_t second = take_message(from, to, std::move(copy));
    messages_[second].lost |= fate.lost || !chance_.raw();  // a reliable layer knows that it has it
    launch(second, fate.extra, !fate.overtaken);
  }
  if (sent) at(from.node, free_at, Label::kSent, std::move(sent));
}

std::uint32_t Core::take_message(EndpointState& from, EndpointState& to, Packet packet) {
  ++num_messages_;
  num_bytes_ += kWireHeaderBytes + packet.bytes;
  trace_.add((static_cast<std::uint64_t>(static_cast<std::uint32_t>(to.id)) << 32) ^ packet.bytes);
  for (const std::uint64_t word : packet.header) trace_.add(word);

  std::uint32_t index;
  if (free_messages_.empty()) {
    index = static_cast<std::uint32_t>(messages_.size());
    messages_.emplace_back();
    flights_.emplace_back();
  } else {
    index = free_messages_.back();
    free_messages_.pop_back();
  }
  PacketInFlight& m = messages_[index];
  m.from = &from;
  m.to = &to;
  Flight& flight = flights_[index];
  flight.source = from.node->machine_index;
  flight.target = to.node->machine_index;
  flight.node = to.node->index;
  flight.wire_bytes = kWireHeaderBytes + packet.bytes;
  flight.urgent = is_urgent(packet) ? 1 : 0;
  m.order = num_messages_;
  m.record = -1;
  m.close_at = -1;
  m.lost = from.node->muted_until > now();
  if (spec_.record_messages) {
    m.record = static_cast<std::int64_t>(records_.size());
    records_.push_back({now(), -1, from.id, to.id, packet.header, packet.bytes});
  }
  m.packet = std::move(packet);
  ++from.num_under_way;
  if (flight.urgent == 0) {
    ++from.num_traffic;
    ++to.num_traffic;
  }
  return index;
}

// Flips a bit of the payload, or of the header of a message that has none.
void Core::damage(Packet& packet) {
  if (packet.payload == nullptr || packet.bytes == 0) {
    packet.header[chance_.draw_below(packet.header.size())] ^= std::uint64_t{1} << chance_.draw_below(64);
    return;
  }
  const std::shared_ptr<std::byte> copy(new std::byte[packet.bytes], std::default_delete<std::byte[]>());
  std::copy_n(packet.payload.get(), packet.bytes, copy.get());
  const auto at =
      chance_.draw_below(static_cast<std::uint32_t>(std::min<std::uint64_t>(packet.bytes, UINT32_MAX)));
  copy.get()[at] ^= std::byte{1} << chance_.draw_below(8);
  packet.payload = copy;
}

// Both hear that the other closed. Nothing passes from this moment on, since what follows waits for what was
// lost.
void Core::lose_connection(EndpointState& a, EndpointState& b, TimeNs when) {
  lost_pairs_.insert(pair_key(a, b));
  lost_pairs_.insert(pair_key(b, a));
  notify_closed(a, b, when);
  notify_closed(b, a, when);
}

// Jitter and faults must not let a packet overtake an earlier one between the same two endpoints: its first
// byte arrives after the other's last. `flight` is the time from its first byte to its last. Urgent ones have
// an order of their own.
TimeNs Core::in_order(const PacketInFlight& message, TimeNs first, TimeNs flight) {
  if (!jitters_ && !chance_.any()) return first;
  constexpr std::uint64_t kUrgentOnes = std::uint64_t{1} << 63;  // ids are not negative
  const std::uint64_t pair = pair_key(*message.from, *message.to);
  TimeNs& last = last_arrival_[is_urgent(message.packet) ? pair | kUrgentOnes : pair];
  first = std::max(last, first);
  last = first + flight;
  return first;
}

void Core::deliver(std::uint32_t index) {
  PacketInFlight& m = messages_[index];
  EndpointState &from = *m.from, &to = *m.to;
  Packet packet = std::move(m.packet);
  const TimeNs close_at = m.close_at;
  const bool arrives = !m.lost && to.open && !to.node->dead && to.node->muted_until <= now();
  if (arrives && m.record >= 0) records_[static_cast<std::size_t>(m.record)].delivered = now();
  release_message(index);
  if (close_at >= 0) notify_closed(from, to, close_at);
  if (!arrives) return;
  note(to.node, 0x41);
  if (!to.handlers || !to.early.empty()) {
    to.early.push_back({from.id, std::move(packet), false});
    return;
  }
  // The handler may replace itself or close the endpoint.
  const std::shared_ptr<EndpointHandlers> handlers = to.handlers;
  if (handlers->on_packet) handlers->on_packet(from.id, std::move(packet));
}

void Core::release_message(std::uint32_t index) {
  PacketInFlight& m = messages_[index];
  if (flights_[index].urgent == 0) {
    --m.from->num_traffic;
    --m.to->num_traffic;
  }
  --std::exchange(m.from, nullptr)->num_under_way;
  m.packet.payload.reset();
  free_messages_.push_back(index);
}

void Core::deliver_early(EndpointState& box) {
  while (box.open && !box.node->dead && !box.node->paused && !box.early.empty()) {
    EndpointState::Early item = std::move(box.early.front());
    box.early.pop_front();
    const std::shared_ptr<EndpointHandlers> handlers = box.handlers;
    if (!item.closed && handlers->on_packet) handlers->on_packet(item.from, std::move(item.packet));
    if (item.closed && handlers->on_closed) handlers->on_closed(item.from);
  }
  // A pause came in between: go on after it.
  if (box.node->paused) soon(box.node, Label::kPost, [this, &box] { deliver_early(box); });
}

void Core::close_endpoint(EndpointState& box) {
  if (!box.open || tearing_down_) return;
  box.open = false;
  std::erase(box.node->endpoints, &box);
  if (box.node->muted_until > now()) return;

  // The close is heard after everything that was sent: of data and urgent messages, after what comes last.
  std::unordered_map<const EndpointState*, std::uint32_t> last_under_way;
  const auto comes_later = [&](std::uint32_t a, std::uint32_t b) {
    const bool local = flights_[a].source == flights_[a].target;
    if (is_urgent(messages_[a].packet) == is_urgent(messages_[b].packet) || local)
      return messages_[a].order > messages_[b].order;
    return flights_[a].last_byte > flights_[b].last_byte;
  };
  if (box.num_under_way > 0)
    for (std::uint32_t i = 0; i < messages_.size(); ++i) {
      if (messages_[i].from != &box) continue;
      const auto [last, first] = last_under_way.emplace(messages_[i].to, i);
      if (!first && comes_later(i, last->second)) last->second = i;
    }
  for (const auto& peer : boxes_) {
    if (!peer->open || peer.get() == &box) continue;
    const int source = box.node->machine_index, target = peer->node->machine_index;
    TimeNs when = now() + path_latency(source, target);
    if (chance_.any() && source != target) {
      if (lost_pairs_.count(pair_key(box, *peer)) > 0) continue;  // it was told
      when += chance_.decide(now(), source, target, /*raw=*/false, routes_).extra;
    }
    if (const auto last = last_under_way.find(peer.get()); last != last_under_way.end())
      messages_[last->second].close_at = when;
    else
      notify_closed(box, *peer, when);
  }
}

void Core::notify_closed(EndpointState& closed, EndpointState& peer, TimeNs when) {
  at(peer.node, when, Label::kClosed, [this, &closed, &peer] { hear_closed(closed, peer); });
}

void Core::hear_closed(EndpointState& closed, EndpointState& peer) {
  if (!peer.open || peer.node->muted_until > now()) return;
  if (!peer.handlers || !peer.early.empty()) {
    peer.early.push_back({closed.id, {}, true});
    return;
  }
  const std::shared_ptr<EndpointHandlers> handlers = peer.handlers;
  if (handlers->on_closed) handlers->on_closed(closed.id);
}

}  // namespace trireme::runtime::virt
