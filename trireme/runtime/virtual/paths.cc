// The links of the topology. A message takes the links of its way one after the other, each FIFO. Switches
// cut through: the next link begins with the first byte, and ends no earlier than the last byte can be there.
// Ranks of one machine use its local link instead. Urgent messages pass between the packets of others.
#include "trireme/runtime/virtual/core.h"

namespace trireme::runtime::virt {

TimeNs Core::launch(std::uint32_t index, TimeNs extra, bool ordered) {
  const PacketInFlight& m = messages_[index];
  Flight& f = flights_[index];
  const auto place = [&](TimeNs first, TimeNs duration) {
    return ordered ? in_order(m, first, duration) : first;
  };
  if (f.source == f.target) {
    Link& link = machine(f.source).local;
    const Link::Use use =
        f.urgent != 0 ? link.take_urgent(now(), f.wire_bytes) : link.take(now(), f.wire_bytes);
    queue_.push(place(use.end + jittered(link.model.latency_ns), 0), {EventKind::kDeliver, index});
    return use.end;
  }
  const auto link = static_cast<std::size_t>(routes_.next(f.source, f.source, f.target));
  Link& wire = wires_[link];
  const Link::Use use =
      f.urgent != 0 ? wire.take_urgent(now(), f.wire_bytes) : wire.take(now(), f.wire_bytes);
  const TimeNs duration = use.end - use.first_byte;
  // Jitter and delays of the whole way are spent here, so that packets cannot change their order later on.
  extra += extra_latency(f.source, f.target);
  const TimeNs first = place(use.first_byte + wire.model.latency_ns + extra, duration);
  f.at = routes_.links()[link].to;
  f.last_byte = first + duration;
  if (f.at == f.target)
    queue_.push(f.last_byte, {EventKind::kDeliver, index});
  else
    queue_.push(first, {EventKind::kArrive, index});
  return use.end;
}

void Core::arrive(std::uint32_t index) {
  Flight& f = flights_[index];
  note(f.node, 0x40);
  const auto link = static_cast<std::size_t>(routes_.next(f.at, f.source, f.target));
  Link& wire = wires_[link];
  const Link::Use use = f.urgent != 0 ? wire.pass_urgent(now(), f.last_byte, f.wire_bytes)
                                      : wire.pass(now(), f.last_byte, f.wire_bytes);
  f.at = routes_.links()[link].to;
  f.last_byte = use.end + wire.model.latency_ns;
  if (f.at == f.target)
    queue_.push(f.last_byte, {EventKind::kDeliver, index});
  else
    queue_.push(use.first_byte + wire.model.latency_ns, {EventKind::kArrive, index});
}

Core::Transfer Core::reserve(int source, int target, std::uint64_t bytes) {
  bytes += kWireHeaderBytes;
  if (source == target) {
    Link& link = machine(source).local;
    const Link::Use use = link.take(now(), bytes);
    return {use.end, use.end + link.model.latency_ns, kForever};
  }
  Fate fate;
  if (chance_.any()) fate = chance_.decide(now(), source, target, /*raw=*/false, routes_);
  Transfer t{0, 0, kForever};
  TimeNs first = 0, last = 0;
  for (std::int32_t at = source; at != target;) {
    const auto link = static_cast<std::size_t>(routes_.next(at, source, target));
    Link& wire = wires_[link];
    const Link::Use use = at == source ? wire.take(now(), bytes) : wire.pass(first, last, bytes);
    if (at == source) t.sent = use.end;
    if (fate.lost) return {t.sent, kForever, now() + fate.extra};
    const TimeNs later =
        wire.model.latency_ns + (at == source ? fate.extra + extra_latency(source, target) : 0);
    first = use.first_byte + later;
    last = use.end + later;
    at = routes_.links()[link].to;
  }
  t.arrival = last;
  return t;
}

TimeNs Core::extra_latency(int source, int target) {
  if (!jitters_) return 0;
  TimeNs extra = 0;
  for (std::int32_t at = source; at != target;) {
    const auto& link = routes_.links()[static_cast<std::size_t>(routes_.next(at, source, target))];
    const double reach = static_cast<double>(link.model.latency_ns) * (spec_.latency_jitter + link.jitter);
    if (reach > 0) extra += static_cast<TimeNs>(reach * random_.next_double());
    at = link.to;
  }
  return extra;
}

TimeNs Core::path_latency(int source, int target) {
  if (source == target) return jittered(machine(source).local.model.latency_ns);
  TimeNs latency = extra_latency(source, target);
  for (std::int32_t at = source; at != target;) {
    const auto& link = routes_.links()[static_cast<std::size_t>(routes_.next(at, source, target))];
    latency += link.model.latency_ns;
    at = link.to;
  }
  return latency;
}

}  // namespace trireme::runtime::virt
