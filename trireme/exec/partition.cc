#include "trireme/exec/partition.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>

namespace trireme::exec {
namespace {

using graph::Graph;
using HostSet = std::vector<std::int32_t>;  // host nodes, ascending

class Partitioner {
 public:
  Partitioner(const Graph& graph, const graph::ValueMap<graph::Value>& roots, const NodeLists& watched,
              const NodeLists& gated, const Phases& phases)
      : graph_(graph),
        roots_(roots),
        watched_(watched),
        gated_(gated),
        phases_(phases),
        deps_(graph::run_dependencies(graph, roots)),
        lane_of_(static_cast<std::size_t>(graph.size()), -1),
        cut_after_(static_cast<std::size_t>(graph.size()), false),
        cut_before_(static_cast<std::size_t>(graph.size()), false) {
    for (std::size_t i = 0; i < deps_.size(); ++i)
      std::erase_if(deps_[i],
                    [&](std::int32_t d) { return phases_.of(d) < phases_.of(static_cast<std::int32_t>(i)); });
  }

  Partition run() {
    find_lanes();
    for (std::int32_t i = 0; i < graph_.size(); ++i)
      if (runs(i) && is_host(i)) cut_for(deps_[static_cast<std::size_t>(i)]);
    for (const auto& nodes : watched_) cut_for(nodes);
    for (const auto& nodes : gated_)
      for (const std::int32_t n : first_in_lanes(nodes)) cut_before_[static_cast<std::size_t>(n)] = true;
    make_strands();
    connect();
    connect_gates();
    count_phases();
    return std::move(out_);
  }

 private:
  bool runs(std::int32_t node) const { return !graph::is_free(graph_, node, roots_); }
  bool is_host(std::int32_t node) const { return graph_.node(node).def->has(op::kHostOp); }

  void find_lanes() {
    std::map<std::pair<std::int32_t, HostSet>, std::int32_t> lanes;  // by phase and host ops
    std::vector<const HostSet*> set_of(lane_of_.size(), nullptr);
    for (std::int32_t i = 0; i < graph_.size(); ++i) {
      if (!runs(i)) continue;
      HostSet hosts;
      for (const std::int32_t d : deps_[static_cast<std::size_t>(i)]) {
        const HostSet& before = *set_of[static_cast<std::size_t>(d)];
        HostSet merged;
        std::set_union(hosts.begin(), hosts.end(), before.begin(), before.end(), std::back_inserter(merged));
        hosts = std::move(merged);
        const auto at = std::lower_bound(hosts.begin(), hosts.end(), d);
        if (is_host(d) && (at == hosts.end() || *at != d)) hosts.insert(at, d);
      }
      const auto [entry, added] =
          lanes.try_emplace({phases_.of(i), std::move(hosts)}, static_cast<std::int32_t>(lanes.size()));
      set_of[static_cast<std::size_t>(i)] = &entry->first.second;
      lane_of_[static_cast<std::size_t>(i)] = entry->second;
    }
    num_lanes_ = lanes.size();
  }

  // Somebody outside waits for `nodes`: cut each lane after the last of them.
  void cut_for(const std::vector<std::int32_t>& nodes) {
    std::map<std::int32_t, std::int32_t> last;
    for (const std::int32_t n : nodes)
      if (!is_host(n)) {
        std::int32_t& l = last[lane_of_[static_cast<std::size_t>(n)]];
        l = std::max(l, n);
      }
    for (const auto& [lane, node] : last) cut_after_[static_cast<std::size_t>(node)] = true;
  }

  // Nodes that wait for a gate themselves; the others of their lanes wait behind them. A host op is started
  // as soon as its inputs are there, so each waits for itself.
  std::vector<std::int32_t> first_in_lanes(const std::vector<std::int32_t>& nodes) const {
    std::vector<std::int32_t> first;
    std::set<std::int32_t> lanes;
    for (const std::int32_t n : nodes)
      if (is_host(n) || lanes.insert(lane_of_[static_cast<std::size_t>(n)]).second) first.push_back(n);
    return first;
  }

  std::int32_t new_strand(bool is_host) {
    out_.strands.emplace_back();
    out_.strands.back().is_host = is_host;
    return static_cast<std::int32_t>(out_.strands.size()) - 1;
  }

  void make_strands() {
    std::vector<std::int32_t> open(num_lanes_, -1), previous(num_lanes_, -1);
    out_.strand_of.assign(lane_of_.size(), -1);
    for (std::int32_t i = 0; i < graph_.size(); ++i) {
      if (!runs(i)) continue;
      std::int32_t s;
      if (is_host(i)) {
        s = new_strand(true);
      } else {
        const auto lane = static_cast<std::size_t>(lane_of_[static_cast<std::size_t>(i)]);
        if (cut_before_[static_cast<std::size_t>(i)]) open[lane] = -1;
        if (open[lane] < 0) {
          open[lane] = new_strand(false);
          if (previous[lane] >= 0) out_.lane_order.emplace_back(previous[lane], open[lane]);
          previous[lane] = open[lane];
        }
        s = open[lane];
        if (cut_after_[static_cast<std::size_t>(i)]) open[lane] = -1;
      }
      Strand& strand = out_.strands[static_cast<std::size_t>(s)];
      strand.nodes.push_back(i);
      strand.cost += graph::node_cost(graph_, i);
      out_.strand_of[static_cast<std::size_t>(i)] = s;
    }
  }

  void connect() {
    std::set<std::pair<std::int32_t, std::int32_t>> edges(out_.lane_order.begin(), out_.lane_order.end());
    for (std::size_t i = 0; i < deps_.size(); ++i)
      for (const std::int32_t d : deps_[i]) {
        const std::int32_t from = out_.strand_of[static_cast<std::size_t>(d)], to = out_.strand_of[i];
        if (from != to) edges.emplace(from, to);
      }
    for (const auto& [from, to] : edges) {
      out_.strands[static_cast<std::size_t>(from)].after.push_back(to);
      ++out_.strands[static_cast<std::size_t>(to)].num_before;
    }
    for (std::size_t n = 0; n < watched_.size(); ++n) {
      std::set<std::int32_t> strands;
      for (const std::int32_t node : watched_[n])
        strands.insert(out_.strand_of[static_cast<std::size_t>(node)]);
      for (const std::int32_t s : strands)
        out_.strands[static_cast<std::size_t>(s)].notices.push_back(static_cast<std::int32_t>(n));
      out_.notice_before.push_back(static_cast<std::int32_t>(strands.size()));
    }
  }

  void connect_gates() {
    for (const auto& nodes : gated_) {
      std::set<std::int32_t> strands;
      for (const std::int32_t n : first_in_lanes(nodes))
        strands.insert(out_.strand_of[static_cast<std::size_t>(n)]);
      for (const std::int32_t s : strands) ++out_.strands[static_cast<std::size_t>(s)].num_before;
      out_.gate_strands.emplace_back(strands.begin(), strands.end());
    }
  }

  void count_phases() {
    out_.first_strand.assign(static_cast<std::size_t>(phases_.num) + 1, 0);
    for (const Strand& s : out_.strands)
      ++out_.first_strand[static_cast<std::size_t>(phases_.of(s.nodes[0])) + 1];
    std::partial_sum(out_.first_strand.begin(), out_.first_strand.end(), out_.first_strand.begin());
  }

  const Graph& graph_;
  const graph::ValueMap<graph::Value>& roots_;
  const NodeLists& watched_;
  const NodeLists& gated_;
  const Phases& phases_;
  NodeLists deps_;
  std::vector<std::int32_t> lane_of_;
  std::vector<bool> cut_after_, cut_before_;
  std::size_t num_lanes_ = 0;
  Partition out_;
};

}  // namespace

Partition partition(const Graph& graph, const graph::ValueMap<graph::Value>& roots, const NodeLists& watched,
                    const NodeLists& gated, const Phases& phases) {
  return Partitioner(graph, roots, watched, gated, phases).run();
}

}  // namespace trireme::exec
