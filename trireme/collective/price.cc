// The time of a price on a model: the one formula by which algorithms are chosen.
#include <algorithm>

#include "trireme/collective/schedule.h"

namespace trireme::collective {
namespace {

struct Spent {
  double latency = 0, messages = 0, bytes = 0;  // seconds
  double busy() const { return messages + bytes; }
  double total() const { return latency + busy(); }
  friend Spent operator+(const Spent& a, const Spent& b) {
    return {a.latency + b.latency, a.messages + b.messages, a.bytes + b.bytes};
  }
};
Spent larger(const Spent& a, const Spent& b) { return a.total() < b.total() ? b : a; }

Spent spent(std::int64_t hops, std::int64_t messages, double bytes, const cost::LinkModel& link) {
  return {static_cast<double>(hops) * to_seconds(link.latency_ns),
          static_cast<double>(messages) * to_seconds(link.message_overhead_ns),
          bytes / link.bytes_per_second};
}

// What must follow one another on equal links.
Spent on_equal_links(const Price& p, const cost::LinkModel& link) {
  return spent(p.hops, std::max(p.rounds, p.messages_sent), p.serial_bytes + p.waiting_bytes, link);
}

// Several machines: the longest chain, which has its share of the links between and inside; or the links of
// the busiest machine, shared by its ranks, which work without a break once the first message is there.
Spent on_machines(const Price& p, const cost::CommModel& model) {
  const MachineLoads& m = p.between;
  // What waits for a send to be done (a pipeline) goes at the pace of the slow links.
  const double in_a_row = p.serial_bytes + p.waiting_bytes,
               slow = static_cast<double>(m.hops + p.rounds - p.hops) / static_cast<double>(p.rounds);
  const Spent chain = spent(m.hops + m.waiting_hops, m.hops, slow * in_a_row, model.link) +
                      spent(p.hops - m.hops, p.rounds - m.hops, (1 - slow) * in_a_row, model.local);
  const int ways = p.flow == Flow::kThereAndBack ? 2 : 1;
  const Spent between = spent(ways, ways * m.messages, ways * m.bytes, model.link),
              inside = spent(0, m.local_messages, m.local_bytes, model.local);
  Spent loads = p.flow == Flow::kMixed ? larger(between, inside) : between + inside;
  // Ranks that wait for one another at every hop leave the links idle meanwhile.
  if (m.waiting_hops > 0) loads.latency = chain.latency;
  return larger(chain, loads);
}

// Bytes that the busiest rank sends and receives: as many come in as go out, in the measure of messages.
double both_ways(const Price& p) {
  const std::int64_t most = std::max(p.messages_sent, p.messages_received);
  if (most == 0 || p.serial_bytes == 0) return 0;
  return p.bytes_per_rank * (1 + static_cast<double>(std::min(p.messages_sent, p.messages_received)) /
                                     static_cast<double>(most));
}

}  // namespace

PriceTime price_parts(const Price& p, const cost::CommModel& model) {
  PriceTime t;
  Spent links = p.between.messages > 0 ? on_machines(p, model) : on_equal_links(p, model.link);
  const double overhead = p.reduce_bytes_per_rank > 0 ? to_seconds(model.machine.op_overhead_ns) : 0;
  const double all = model.reduce_seconds(p.reduce_bytes_per_rank) + overhead;
  double additions;
  if (model.ranks_per_host > 0) {
    // The processors do everything: nothing is hidden, messages and bytes cost their receiver too, and ranks
    // that share a core take turns.
    links.messages =
        std::max(links.messages, spent(0, p.messages_received, 0, model.link).messages) * model.crowding();
    links.bytes = (std::max(links.bytes, both_ways(p) / model.link.bytes_per_second) +
                   model.peer_copy_seconds(p.peer_copy_bytes)) *
                  model.crowding();
    additions = all * model.crowding();
  } else {
    links.bytes += model.peer_copy_seconds(p.peer_copy_bytes);
    // Half of the messages bring sums together and can hide additions, the others spread results.
    const double exposed = model.reduce_seconds(p.exposed_reduce_bytes) + overhead;
    additions = std::max(exposed, all - links.busy() / 2);
  }
  t.latency = from_seconds(links.latency);
  t.messages = from_seconds(links.messages);
  t.bytes = from_seconds(links.bytes);
  t.additions = from_seconds(additions);
  return t;
}

TimeNs price_time(const Price& price, const cost::CommModel& model) {
  return price_parts(price, model).total();
}
TimeNs price_time(const Price& price, const cost::LinkModel& link, const cost::MachineModel& machine) {
  return price_time(price, cost::CommModel(link, machine));
}

}  // namespace trireme::collective
