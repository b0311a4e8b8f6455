#include "tests/server/updates.h"

#include "trireme/graph/builder.h"
#include "trireme/op/ops.h"

namespace trireme::server::testing {
namespace {

struct Rule {
  const op::OpDef* op;
  const char* state = nullptr;
  bool counts = false, clips = false;
};

Result<UpdateSpec> build(const Rule& rule, std::span<const StoredPart> parts) {
  UpdateSpec spec;
  graph::Builder b(spec.graph);
  const auto lr = b.input("lr", DType::kF32, {});
  const auto step = rule.counts ? b.input("step", DType::kI64, {}) : graph::Value();
  const auto clip = rule.clips ? b.input("clip", DType::kF32, {}) : graph::Value();
  for (const StoredPart& p : parts) {
    const TensorType type{DType::kF32, {p.count}};
    std::vector<graph::Value> in{b.variable(p.name, type.dtype, type.shape)};
    if (rule.state != nullptr) {
      const std::string name = p.name + "/" + rule.state;
      in.push_back(b.variable(name, type.dtype, type.shape));
      spec.states.push_back({name, type, 0});
    }
    auto g = b.input("grad:" + p.name, type.dtype, type.shape);
    if (rule.clips) g = b.mul(g, clip);
    in.push_back(g);
    in.push_back(lr);
    if (rule.counts) in.push_back(step);
    b.output("updated:" + p.name, b.add_node(*rule.op, in));
  }
  TR_RETURN_IF_ERROR(b.status());
  return spec;
}

}  // namespace

Result<UpdateSpec> sgd(std::span<const StoredPart> parts) { return build({&op::kApplySgd}, parts); }
Result<UpdateSpec> adagrad(std::span<const StoredPart> parts) {
  return build({&op::kApplyAdagrad, "sum", true}, parts);
}
Result<UpdateSpec> momentum(std::span<const StoredPart> parts) {
  return build({&op::kApplyMomentum, "velocity"}, parts);
}
Result<UpdateSpec> clipped_sgd(std::span<const StoredPart> parts) {
  return build({&op::kApplySgd, nullptr, false, true}, parts);
}

}  // namespace trireme::server::testing
