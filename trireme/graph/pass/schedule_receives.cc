// Receives just in time (TensorFlow white paper, Abadi et al. 2015, section 5.2): a recv that starts as soon
// as it can holds its memory from the beginning of the step. Vocabulary: the earliest and the latest times of
// a node are those at which it can start and must have started so that the critical path stays as long as it
// is.
//
// Each recv gets a control edge from the node that ends last before the latest start of the recv. Only nodes
// that wait for no host op are taken as such, so the edge never makes one rank wait for another: ranks that
// all delay their receives cannot wait for each other in a circle.
#include <algorithm>
#include <queue>

#include "trireme/graph/pass/passes.h"
#include "trireme/graph/pass/rewrite.h"
#include "trireme/op/ops.h"

namespace trireme::graph {
namespace {

using Edges = std::vector<std::vector<std::int32_t>>;

std::size_t at(std::int32_t i) { return static_cast<std::size_t>(i); }

class Schedule {
 public:
  Schedule(const Graph& graph, const cost::MachineModel& machine, const cost::LinkModel& link)
      : graph_(graph), before_(all_dependencies(graph)), num_nodes_(graph.size()) {
    for (std::int32_t i = 0; i < num_nodes_; ++i) duration_.push_back(duration(i, machine, link));
    local_.assign(at(num_nodes_), true);
    for (std::int32_t i = 0; i < num_nodes_; ++i) {
      if (graph.node(i).def->has(op::kHostOp)) local_[at(i)] = false;
      for (const std::int32_t b : before_[at(i)]) local_[at(i)] = local_[at(i)] && local_[at(b)];
    }
    order_.resize(at(num_nodes_));
    for (std::int32_t i = 0; i < num_nodes_; ++i) order_[at(i)] = i;
  }

  // Adds the edges for every recv. The critical path keeps its length.
  void delay_receives() {
    for (std::int32_t i = 0; i < num_nodes_; ++i) {
      if (graph_.node(i).def != &op::kRecv) continue;
      measure();
      const std::int32_t anchor = anchor_for(i);
      if (anchor < 0) continue;
      before_[at(i)].push_back(anchor);
      delayed_.emplace_back(anchor, i);
      sort();
    }
  }

  Result<Graph> apply() const {
    Rewriter rewriter(graph_);
    for (const std::int32_t id : order_) {
      TR_RETURN_IF_ERROR(rewriter.copy(id).status());
      for (const auto& [anchor, recv] : delayed_) {
        if (recv == id) rewriter.to().add_control(rewriter.moved(anchor), rewriter.moved(recv));
      }
    }
    return rewriter.finish();
  }

 private:
  // Inputs, control edges, and readers of a variable before what writes it.
  static Edges all_dependencies(const Graph& graph) {
    Edges before = run_dependencies(graph, storage_roots(graph));
    for (std::int32_t i = 0; i < graph.size(); ++i) {
      auto& mine = before[at(i)];
      for (const Value v : graph.node(i).inputs) mine.push_back(v.node);
      mine.insert(mine.end(), graph.node(i).control.begin(), graph.node(i).control.end());
    }
    return before;
  }

  TimeNs duration(std::int32_t id, const cost::MachineModel& machine, const cost::LinkModel& link) const {
    const Node& node = graph_.node(id);
    if (node.def == &op::kRecv)
      return link.latency_ns + cost::transfer_time(node.outputs[0].num_bytes(), link);
    if (node.def->has(op::kFeed) || node.def->has(op::kHostOp)) return 0;
    return cost::compute_time(node_cost(graph_, id), machine, 1);
  }

  void measure() {
    earliest_end_.assign(at(num_nodes_), 0);
    for (const std::int32_t i : order_) {
      TimeNs start = 0;
      for (const std::int32_t b : before_[at(i)]) start = std::max(start, earliest_end_[at(b)]);
      earliest_end_[at(i)] = start + duration_[at(i)];
    }
    const TimeNs length = num_nodes_ > 0 ? *std::max_element(earliest_end_.begin(), earliest_end_.end()) : 0;
    std::vector<TimeNs> latest_end(at(num_nodes_), length);
    latest_start_.assign(at(num_nodes_), 0);
    for (auto it = order_.rbegin(); it != order_.rend(); ++it) {
      latest_start_[at(*it)] = latest_end[at(*it)] - duration_[at(*it)];
      for (const std::int32_t b : before_[at(*it)])
        latest_end[at(b)] = std::min(latest_end[at(b)], latest_start_[at(*it)]);
    }
  }

  // The local node that ends last of those that run and can end in time.
  std::int32_t anchor_for(std::int32_t recv) const {
    std::int32_t best = -1;
    for (std::int32_t i = 0; i < num_nodes_; ++i) {
      if (!local_[at(i)] || duration_[at(i)] == 0 || earliest_end_[at(i)] > latest_start_[at(recv)]) continue;
      if (best < 0 || earliest_end_[at(i)] > earliest_end_[at(best)]) best = i;
    }
    return best;
  }

  // A topological order that stays close to the old one.
  void sort() {
    std::vector<std::int32_t> missing(at(num_nodes_), 0);
    Edges after(at(num_nodes_));
    for (std::int32_t i = 0; i < num_nodes_; ++i) {
      missing[at(i)] = static_cast<std::int32_t>(before_[at(i)].size());
      for (const std::int32_t b : before_[at(i)]) after[at(b)].push_back(i);
    }
    std::priority_queue<std::int32_t, std::vector<std::int32_t>, std::greater<>> ready;
    for (std::int32_t i = 0; i < num_nodes_; ++i) {
      if (missing[at(i)] == 0) ready.push(i);
    }
    order_.clear();
    while (!ready.empty()) {
      const std::int32_t i = ready.top();
      ready.pop();
      order_.push_back(i);
      for (const std::int32_t a : after[at(i)]) {
        if (--missing[at(a)] == 0) ready.push(a);
      }
    }
    TR_CHECK(static_cast<std::int32_t>(order_.size()) == num_nodes_, "a delayed recv waits for itself");
  }

  const Graph& graph_;
  Edges before_;
  std::int32_t num_nodes_;
  std::vector<TimeNs> duration_, earliest_end_, latest_start_;
  std::vector<bool> local_;  // waits for no host op
  std::vector<std::int32_t> order_;
  std::vector<std::pair<std::int32_t, std::int32_t>> delayed_;  // (anchor, recv)
};

Result<Graph> schedule_receives(const Graph& graph, const cost::MachineModel& machine,
                                const cost::LinkModel& link) {
  Schedule schedule(graph, machine, link);
  schedule.delay_receives();
  return schedule.apply();
}

}  // namespace

// Control edges that start each recv just in time instead of at once, by the times of the models: the
// critical path stays as long as it is, the memory of what is received is taken later. Exact.
extern const PassRow kScheduleReceives{
    .name = "schedule_receives",
    .doc = "Starts each recv just in time, by the critical path.",
    .exactness = Exactness::kExact,
    .run = [](const Graph& g, const PassOptions& o) { return schedule_receives(g, o.machine, o.link); }};

}  // namespace trireme::graph
