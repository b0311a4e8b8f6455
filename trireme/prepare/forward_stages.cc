#include "trireme/prepare/forward_stages.h"

#include <set>

#include "trireme/parallel/segment/stage_graph.h"

namespace trireme::prepare {
namespace {

using graph::Graph;
using parallel::LayerList;

// Those of the plan's cuts that share its segments among the stages.
Result<std::vector<std::string>> cuts_of_plan(const Graph& forward, const LayerList& list,
                                              const plan::Plan& plan, std::int32_t stages) {
  TR_ASSIGN_OR_RETURN(const parallel::Cuts fine, parallel::named_cuts(forward, list, plan.segment_cuts));
  LayerList segments;
  segments.layers.resize(static_cast<std::size_t>(fine.segments()));
  for (std::size_t l = 0, s = 0; l < list.layers.size(); ++l) {
    if (s < fine.layers.size() && static_cast<std::size_t>(fine.layers[s]) == l) ++s;
    segments.layers[s].seconds += list.layers[l].seconds;
  }
  TR_ASSIGN_OR_RETURN(const parallel::Cuts runs, parallel::balanced_cuts(segments, stages));
  std::vector<std::string> names;
  for (const std::int32_t segment : runs.layers)
    names.push_back(plan.segment_cuts[static_cast<std::size_t>(segment - 1)]);
  return names;
}

Result<std::vector<std::string>> choose_cuts(const Graph& forward, const plan::Plan* plan,
                                             std::int32_t stages) {
  const LayerList list = parallel::layers_of(forward);
  if (plan != nullptr && plan->segments >= stages) return cuts_of_plan(forward, list, *plan, stages);
  TR_ASSIGN_OR_RETURN(const parallel::Cuts cuts, parallel::balanced_cuts(list, stages));
  std::vector<std::string> names;
  for (const std::int32_t layer : cuts.layers)
    names.push_back(list.layers[static_cast<std::size_t>(layer)].name);
  return names;
}

}  // namespace

Result<ForwardStages> choose_forward_stages(const Graph& eval, const plan::Plan* plan, std::int32_t stages) {
  ForwardStages out;
  out.stages = stages;
  if (stages == 1) return out;
  TR_ASSIGN_OR_RETURN(const Graph forward, forward_graph(eval, {"loss", "correct"}));
  TR_ASSIGN_OR_RETURN(out.cuts, choose_cuts(forward, plan, stages));
  TR_ASSIGN_OR_RETURN(const parallel::SegmentedModel model, cut_forward(forward, out));
  for (std::int32_t s = 0; s < stages; ++s)
    for (const auto& [name, v] : model.segments[static_cast<std::size_t>(s)].graph.variables())
      out.places[name].push_back(s);
  return out;
}

Result<parallel::SegmentedModel> cut_forward(const Graph& forward, const ForwardStages& over) {
  const LayerList list = parallel::layers_of(forward);
  TR_ASSIGN_OR_RETURN(const parallel::Cuts cuts, parallel::named_cuts(forward, list, over.cuts));
  parallel::SegmentRequest request{&forward, &list, cuts};
  request.gathers_outputs = true;
  return parallel::cut_model(request);
}

Result<Graph> join_stages(const Graph& part, const parallel::SegmentedModel& model, std::int32_t stage) {
  // Nothing is trained, so the slots of train graphs are free.
  return parallel::add_messages(part, {&model, first_train_slot(), first_eval_slot() - first_train_slot()},
                                stage);
}

}  // namespace trireme::prepare
