#include "trireme/cost/routes.h"

#include <algorithm>
#include <limits>

namespace trireme::cost {
namespace {

// A single switch as links: the latency is on the way up.
std::vector<TopologyLink> links_of(const Topology& t) {
  if (!t.links.empty()) return t.links;
  std::vector<TopologyLink> links;
  const std::int32_t hub = t.num_machines();
  LinkModel down = t.down;
  down.latency_ns = down.message_overhead_ns = 0;
  for (std::int32_t m = 0; m < hub; ++m) {
    links.push_back({m, hub, t.up, t.jitter});
    links.push_back({hub, m, down, 0});
  }
  return links;
}

// splitmix64's finaliser (Steele, Lea, Flood, OOPSLA 2014).
std::uint64_t mix(std::uint64_t x) {
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ULL;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBULL;
  return x ^ (x >> 31);
}

// Links sorted by one of their ends, stable.
void index_links(const std::vector<TopologyLink>& links, int num_vertices, std::int32_t TopologyLink::*end,
                 std::vector<std::uint32_t>& first, std::vector<std::int32_t>& sorted) {
  first.assign(static_cast<std::size_t>(num_vertices) + 1, 0);
  for (const TopologyLink& l : links) ++first[static_cast<std::size_t>(l.*end) + 1];
  for (std::size_t v = 0; v + 1 < first.size(); ++v) first[v + 1] += first[v];
  sorted.resize(links.size());
  std::vector<std::uint32_t> at(first.begin(), first.end() - 1);
  for (std::size_t i = 0; i < links.size(); ++i)
    sorted[at[static_cast<std::size_t>(links[i].*end)]++] = static_cast<std::int32_t>(i);
}

}  // namespace

Routes::Routes(const Topology& t)
    : num_machines_(t.num_machines()),
      num_vertices_(t.num_vertices()),
      spread_(t.spread),
      machines_forward_(t.machines_forward),
      local_(t.local),
      links_(links_of(t)),
      level_(static_cast<std::size_t>(num_vertices_), 0),
      access_(t.machines.size(), -1),
      last_link_(t.machines.size(), -1),
      only_out_(t.machines.size(), -1),
      tables_(static_cast<std::size_t>(num_vertices_)) {
  for (std::size_t s = 0; s < t.switch_level.size() && !t.links.empty(); ++s)
    level_[t.machines.size() + s] = t.switch_level[s];
  index_links(links_, num_vertices_, &TopologyLink::from, out_first_, out_);
  index_links(links_, num_vertices_, &TopologyLink::to, in_first_, in_);
  for (std::size_t m = 0; m < t.machines.size(); ++m) {
    if (out_first_[m + 1] - out_first_[m] == 1) only_out_[m] = out_[out_first_[m]];
    if (in_first_[m + 1] - in_first_[m] != 1) continue;
    last_link_[m] = in_[in_first_[m]];
    access_[m] = links_[static_cast<std::size_t>(last_link_[m])].from;
  }
}

// Breadth-first from the target against the direction of the links, then every link that comes one nearer.
void Routes::build(Table& table, std::int32_t target) const {
  constexpr std::uint32_t kFar = std::numeric_limits<std::uint32_t>::max();
  std::vector<std::uint32_t> distance(static_cast<std::size_t>(num_vertices_), kFar);
  std::vector<std::int32_t> reached{target};
  distance[static_cast<std::size_t>(target)] = 0;
  for (std::size_t i = 0; i < reached.size(); ++i) {
    const std::int32_t v = reached[i];
    if (v < num_machines_ && v != target && !machines_forward_) continue;
    const auto at = static_cast<std::size_t>(v);
    for (std::uint32_t e = in_first_[at]; e < in_first_[at + 1]; ++e) {
      const std::int32_t from = links_[static_cast<std::size_t>(in_[e])].from;
      if (distance[static_cast<std::size_t>(from)] != kFar) continue;
      distance[static_cast<std::size_t>(from)] = distance[at] + 1;
      reached.push_back(from);
    }
  }
  table.first.push_back(0);
  for (std::int32_t v = 0; v < num_vertices_; ++v) {
    const auto at = static_cast<std::size_t>(v);
    for (std::uint32_t e = out_first_[at]; e < out_first_[at + 1] && distance[at] != kFar; ++e) {
      const std::int32_t to = links_[static_cast<std::size_t>(out_[e])].to;
      const bool passes = to == target || to >= num_machines_ || machines_forward_;
      if (passes && distance[static_cast<std::size_t>(to)] + 1 == distance[at])
        table.links.push_back(out_[e]);
    }
    table.first.push_back(static_cast<std::uint32_t>(table.links.size()));
  }
}

std::int32_t Routes::choose(std::int32_t vertex, std::int32_t source, std::int32_t target) {
  const std::int32_t access = access_[static_cast<std::size_t>(target)];
  // A machine's only neighbour may itself be a machine that does not forward: then the way is to that
  // machine.
  const bool by_access = access >= num_machines_ || (access >= 0 && machines_forward_);
  const std::int32_t goal = by_access ? access : target;
  Table& table = tables_[static_cast<std::size_t>(goal)];
  if (table.first.empty()) build(table, goal);
  const auto at = static_cast<std::size_t>(vertex);
  const std::uint32_t first = table.first[at], count = table.first[at + 1] - first;
  if (count == 0) return -1;
  std::uint64_t which = 0;
  if (count > 1 && spread_ == Spread::kHash) {
    const auto pair = (static_cast<std::uint64_t>(static_cast<std::uint32_t>(source)) << 32) |
                      static_cast<std::uint32_t>(target);
    which = mix(pair + 0x9E3779B97F4A7C15ULL * static_cast<std::uint64_t>(vertex + 1)) % count;
  } else if (count > 1 && spread_ == Spread::kDestination) {
    which = static_cast<std::uint64_t>(target);
    for (std::int32_t l = 0; l < level_[at]; ++l) which /= count;
    which %= count;
  }
  return table.links[first + which];
}

std::vector<std::int32_t> Routes::path(int source, int target) {
  std::vector<std::int32_t> links;
  for (std::int32_t v = source; v != target;) {
    const std::int32_t link = next(v, source, target);
    if (link < 0 || links.size() > links_.size()) return {};
    links.push_back(link);
    v = links_[static_cast<std::size_t>(link)].to;
  }
  return links;
}

LinkModel Routes::path_model(int source, int target) {
  if (source == target) return local_;
  LinkModel model{
      .latency_ns = 0, .bytes_per_second = std::numeric_limits<double>::infinity(), .message_overhead_ns = 0};
  bool first = true;
  for (const std::int32_t i : path(source, target)) {
    const LinkModel& l = links_[static_cast<std::size_t>(i)].model;
    if (std::exchange(first, false)) model.message_overhead_ns = l.message_overhead_ns;
    model.latency_ns += l.latency_ns;
    model.bytes_per_second = std::min(model.bytes_per_second, l.bytes_per_second);
  }
  return model;
}

namespace {

// Means over the pairs that were added; the mean of bandwidths is harmonic, since times add.
class MeanLink {
 public:
  void add(const LinkModel& l) {
    ++count_;
    latency_ += static_cast<double>(l.latency_ns);
    overhead_ += static_cast<double>(l.message_overhead_ns);
    per_byte_ += 1 / l.bytes_per_second;
  }
  bool empty() const { return count_ == 0; }
  LinkModel mean() const {
    return {.latency_ns = static_cast<TimeNs>(latency_ / count_ + 0.5),
            .bytes_per_second = count_ / per_byte_,
            .message_overhead_ns = static_cast<TimeNs>(overhead_ / count_ + 0.5)};
  }

 private:
  double count_ = 0, latency_ = 0, overhead_ = 0, per_byte_ = 0;
};

double half_shift(const Topology& t, Routes& routes) {
  const int n = t.num_machines();
  std::vector<double> seconds_per_byte(routes.links().size(), 0);
  double alone = 0, busiest = 0;
  for (int m = 0; m < n; ++m) {
    const int to = (m + n / 2) % n;
    if (to == m) continue;
    alone = std::max(alone, 1 / routes.path_model(m, to).bytes_per_second);
    for (const std::int32_t l : routes.path(m, to)) {
      const auto at = static_cast<std::size_t>(l);
      seconds_per_byte[at] += 1 / routes.links()[at].model.bytes_per_second;
      busiest = std::max(busiest, seconds_per_byte[at]);
    }
  }
  return alone > 0 ? std::max(1.0, busiest / alone) : 1;
}

}  // namespace

TopologySummary summarise(const Topology& t) {
  constexpr int kPairs = 4096;
  const int n = t.num_machines();
  TopologySummary s;
  s.near = s.far = s.typical = t.local;
  if (n < 2) return s;
  Routes routes(t);
  const auto group = [&](int m) { return t.group.empty() ? m : t.group[static_cast<std::size_t>(m)]; };
  MeanLink near, far, all;
  const auto add = [&](int a, int b) {
    const LinkModel l = routes.path_model(a, b);
    (group(a) == group(b) ? near : far).add(l);
    all.add(l);
  };
  // All pairs of a small cluster; of a large one every machine with some that are further and further away.
  if (n * (n - 1) <= kPairs) {
    for (int a = 0; a < n; ++a)
      for (int b = 0; b < n; ++b)
        if (a != b) add(a, b);
  } else {
    const int per_machine = std::max(4, kPairs / n);
    for (int a = 0; a < n; ++a)
      for (int i = 0; i < per_machine; ++i) {
        const auto step = 1 + static_cast<std::int64_t>(i) * (n - 2) / std::max(1, per_machine - 1);
        add(a, static_cast<int>((a + step) % n));
      }
  }
  s.typical = all.mean();
  s.near = near.empty() ? far.mean() : near.mean();
  s.far = far.empty() ? s.near : far.mean();
  s.oversubscription = half_shift(t, routes);
  return s;
}

}  // namespace trireme::cost
