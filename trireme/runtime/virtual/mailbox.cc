// Mailboxes over links. A packet from machine A to machine B takes A's up link, then B's down link, each
// FIFO. The switch cuts through: the down link begins with the first byte and ends no earlier than the last
// byte can be there. Between ranks of one machine it takes the machine's local link instead.
#include "trireme/runtime/virtual/core.h"

namespace trireme::runtime::virt {
namespace {

class VirtualMailbox final : public Mailbox {
 public:
  VirtualMailbox(Core& core, MailboxState& box) : core_(core), box_(box) {}
  ~VirtualMailbox() override {
    box_.node->act([core = &core_, box = &box_] { core->close_mailbox(*box); });
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
        std::make_shared<MailboxHandlers>(MailboxHandlers{std::move(on_packet), std::move(on_closed)});
    if (!box_.early.empty())
      core_.soon(box_.node, Label::kPost, [core = &core_, box = &box_] { core->deliver_early(*box); });
  }

 private:
  Core& core_;
  MailboxState& box_;
};

std::uint64_t pair_key(const MailboxState& from, const MailboxState& to) {
  return (static_cast<std::uint64_t>(static_cast<std::uint32_t>(from.id)) << 32) |
         static_cast<std::uint32_t>(to.id);
}

bool same_machine(const MailboxState& a, const MailboxState& b) {
  return a.node->machine_index == b.node->machine_index;
}

}  // namespace

Result<std::unique_ptr<Mailbox>> Core::open_mailbox(Node& node, int id) {
  if (node.dead) return error(Code::kUnavailable, "[runtime] '{}' is dead: it opens no mailbox", node.name());
  MailboxState*& latest = box_of_id_[id];
  if (latest != nullptr && latest->open)
    return error(Code::kExists, "[runtime] mailbox {} is open already, by '{}'; use another id", id,
                 latest->node->name());
  boxes_.push_back(std::make_unique<MailboxState>());
  latest = boxes_.back().get();
  latest->id = id;
  latest->node = &node;
  node.mailboxes.push_back(latest);
  if (auto waiting = parked_.extract(id); !waiting.empty())
    for (Parked& p : waiting.mapped())
      if (!p.from->node->dead) route(*p.from, *latest, std::move(p.packet), std::move(p.sent));
  return std::unique_ptr<Mailbox>(std::make_unique<VirtualMailbox>(*this, *latest));
}

void Core::send(MailboxState& from, int to, Packet packet, Callback sent) {
  if (!from.open) return;
  const auto found = box_of_id_.find(to);
  if (found == box_of_id_.end()) {
    parked_[to].push_back({&from, std::move(packet), std::move(sent)});
  } else {
    route(from, *found->second, std::move(packet), std::move(sent));
  }
}

void Core::route(MailboxState& from, MailboxState& to, Packet packet, Callback sent) {
  const std::uint64_t wire_bytes = kWireHeaderBytes + packet.bytes;
  ++num_messages_;
  num_bytes_ += wire_bytes;
  trace_.add((static_cast<std::uint64_t>(static_cast<std::uint32_t>(to.id)) << 32) ^ packet.bytes);
  for (const std::uint64_t word : packet.header) trace_.add(word);

  std::uint32_t index;
  if (free_messages_.empty()) {
    index = static_cast<std::uint32_t>(messages_.size());
    messages_.emplace_back();
  } else {
    index = free_messages_.back();
    free_messages_.pop_back();
  }
  Message& m = messages_[index];
  m.from = &from;
  m.to = &to;
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

  Machine& machine = from.node->machine();
  const bool local = same_machine(from, to);
  Link& link = local ? machine.local : machine.up;
  const Link::Use use = link.take(now(), wire_bytes);
  const TimeNs latency = jittered(link.model.latency_ns);
  if (local) {
    queue_.push(in_order(from, to, use.end + latency), {EventKind::kDeliver, index});
  } else {
    const TimeNs first = in_order(from, to, use.first_byte + latency);
    m.last_byte = first + (use.end - use.first_byte);
    queue_.push(first, {EventKind::kArrive, index});
  }
  if (sent) at(from.node, use.end, Label::kSent, std::move(sent));
}

// Jitter must not let a packet overtake an earlier one between the same two mailboxes.
TimeNs Core::in_order(const MailboxState& from, const MailboxState& to, TimeNs when) {
  if (spec_.latency_jitter <= 0) return when;
  TimeNs& last = last_arrival_[pair_key(from, to)];
  return last = std::max(last, when);
}

void Core::arrive(std::uint32_t index) {
  Message& m = messages_[index];
  note(m.to->node, 0x40);
  Link& down = m.to->node->machine().down;
  const std::uint64_t wire_bytes = kWireHeaderBytes + m.packet.bytes;
  const TimeNs start = std::max(now(), down.free_at);
  down.free_at = std::max(start + cost::transfer_time(wire_bytes, down.model), m.last_byte);
  queue_.push(down.free_at, {EventKind::kDeliver, index});
}

void Core::deliver(std::uint32_t index) {
  Message& m = messages_[index];
  MailboxState &from = *m.from, &to = *m.to;
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
  // The handler may replace itself or close the mailbox.
  const std::shared_ptr<MailboxHandlers> handlers = to.handlers;
  if (handlers->on_packet) handlers->on_packet(from.id, std::move(packet));
}

void Core::release_message(std::uint32_t index) {
  Message& m = messages_[index];
  --std::exchange(m.from, nullptr)->num_under_way;
  m.packet.payload.reset();
  free_messages_.push_back(index);
}

void Core::deliver_early(MailboxState& box) {
  while (box.open && !box.node->dead && !box.node->paused && !box.early.empty()) {
    MailboxState::Early item = std::move(box.early.front());
    box.early.pop_front();
    const std::shared_ptr<MailboxHandlers> handlers = box.handlers;
    if (!item.closed && handlers->on_packet) handlers->on_packet(item.from, std::move(item.packet));
    if (item.closed && handlers->on_closed) handlers->on_closed(item.from);
  }
  // A pause came in between: go on after it.
  if (box.node->paused) soon(box.node, Label::kPost, [this, &box] { deliver_early(box); });
}

void Core::close_mailbox(MailboxState& box) {
  if (!box.open || tearing_down_) return;
  box.open = false;
  std::erase(box.node->mailboxes, &box);
  if (box.node->muted_until > now()) return;

  std::unordered_map<const MailboxState*, Message*> last_under_way;
  if (box.num_under_way > 0)
    for (Message& m : messages_) {
      if (m.from != &box) continue;
      Message*& last = last_under_way[m.to];
      if (last == nullptr || last->order < m.order) last = &m;
    }
  for (const auto& peer : boxes_) {
    if (!peer->open || peer.get() == &box) continue;
    const Machine& machine = box.node->machine();
    const Link& link = same_machine(box, *peer) ? machine.local : machine.up;
    const TimeNs when = now() + jittered(link.model.latency_ns);
    if (const auto last = last_under_way.find(peer.get()); last != last_under_way.end())
      last->second->close_at = when;
    else
      notify_closed(box, *peer, when);
  }
}

void Core::notify_closed(MailboxState& closed, MailboxState& peer, TimeNs when) {
  at(peer.node, when, Label::kClosed, [this, &closed, &peer] { hear_closed(closed, peer); });
}

void Core::hear_closed(MailboxState& closed, MailboxState& peer) {
  if (!peer.open || peer.node->muted_until > now()) return;
  if (!peer.handlers || !peer.early.empty()) {
    peer.early.push_back({closed.id, {}, true});
    return;
  }
  const std::shared_ptr<MailboxHandlers> handlers = peer.handlers;
  if (handlers->on_closed) handlers->on_closed(closed.id);
}

}  // namespace trireme::runtime::virt
