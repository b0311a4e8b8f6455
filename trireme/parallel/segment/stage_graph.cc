#include "trireme/parallel/segment/stage_graph.h"

#include <map>

#include "trireme/graph/pass/rewrite.h"
#include "trireme/op/ops.h"
#include "trireme/parallel/mesh.h"

namespace trireme::parallel {
namespace {

using graph::Graph;
using graph::Value;

class MessageAdder {
 public:
  MessageAdder(const Graph& part, const StageMessages& messages, std::int32_t stage)
      : part_(part), o_(messages), stage_(stage), rewriter_(part) {}

  Result<Graph> run() {
    TR_RETURN_IF_ERROR(check_slots());
    const auto& crossings = o_.model->crossings;
    for (std::size_t i = 0; i < crossings.size(); ++i)
      if (crossings[i].from < stage_ && stage_ <= crossings[i].last) TR_RETURN_IF_ERROR(receive(i));
    for (std::int32_t id = 0; id < part_.size(); ++id) TR_RETURN_IF_ERROR(copy(id));
    std::vector<std::pair<std::string, Value>> sent;
    for (std::size_t i = 0; i < crossings.size(); ++i)
      if (crossings[i].from <= stage_ && stage_ < crossings[i].last) {
        TR_ASSIGN_OR_RETURN(const Value token, send(i));
        sent.emplace_back("sent:" + crossings[i].name, token);
      }
    TR_ASSIGN_OR_RETURN(Graph graph, rewriter_.finish());
    for (auto& [name, token] : sent) graph.set_output(std::move(name), token);
    TR_RETURN_IF_ERROR(graph::verify(graph));
    return graph;
  }

 private:
  std::int64_t borders() const { return static_cast<std::int64_t>(o_.model->segments.size()) - 1; }

  Status check_slots() const {
    const auto values = static_cast<std::int64_t>(o_.model->crossings.size());
    if (values * borders() <= o_.num_slots) return {};
    return error(Code::kExhausted,
                 "[parallel] {} values between {} stages need {} message slots, and there are {}; use fewer "
                 "stages",
                 values, borders() + 1, values * borders(), o_.num_slots);
  }

  // What crosses the end of stage `border`.
  op::Attrs message(std::size_t i, std::int32_t border, std::int32_t peer) const {
    op::Attrs attrs;
    attrs.set("peer", std::int64_t{peer});
    attrs.set("slot", o_.first_slot + static_cast<std::int64_t>(i) * borders() + border);
    attrs.set("axis", std::string(kStageAxis));
    attrs.set("label", fmt::format("activations, stage {} to {}", border, border + 1));
    return attrs;
  }

  Status receive(std::size_t i) {
    const Crossing& c = o_.model->crossings[i];
    op::Attrs attrs = message(i, stage_ - 1, stage_ - 1);
    attrs.set("dtype", c.type.dtype);
    attrs.set("shape", std::vector<std::int64_t>(c.type.shape.dims().begin(), c.type.shape.dims().end()));
    TR_ASSIGN_OR_RETURN(received_[c.name], rewriter_.add(op::kRecv, {}, std::move(attrs), "recv", ""));
    return {};
  }

  Status copy(std::int32_t id) {
    const graph::Node& node = part_.node(id);
    if (node.def == &op::kInput)
      if (const auto value = received_.find(node.attrs.get_text("name")); value != received_.end()) {
        rewriter_.map({id, 0}, value->second);
        return {};
      }
    return rewriter_.copy(id).status();
  }

  Result<Value> send(std::size_t i) {
    const Crossing& c = o_.model->crossings[i];
    Value value;
    if (c.from == stage_) {
      const auto made = part_.find_output(c.name);
      TR_CHECK(made.has_value(), "stage {} does not make '{}'", stage_, c.name);
      value = rewriter_.at(*made);
    } else {
      value = received_.at(c.name);
    }
    return rewriter_.add(op::kSend, {value}, message(i, stage_, stage_ + 1), "send", "");
  }

  const Graph& part_;
  const StageMessages& o_;
  const std::int32_t stage_;
  graph::Rewriter rewriter_;
  std::map<std::string, Value> received_;  // by crossing
};

}  // namespace

Result<Graph> add_messages(const Graph& part, const StageMessages& messages, std::int32_t stage) {
  return MessageAdder(part, messages, stage).run();
}

}  // namespace trireme::parallel
