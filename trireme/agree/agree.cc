#include "trireme/agree/agree.h"

namespace trireme::agree {

using runtime::Task;

std::vector<codec::Coding> codings_of(const RuleContext& context) {
  std::vector<codec::Coding> codings(context.weights.size(), context.options.coding);
  for (std::size_t b = 0; b < context.buckets.size(); ++b) codings[b] = context.buckets[b].coding;
  return codings;
}

std::int64_t RuleContext::parameter_elems(std::size_t bucket) const {
  const std::int64_t known = buckets.empty() ? -1 : buckets[bucket].parameter_elems;
  return known >= 0 ? known : weights[bucket].shape().num_elems();
}

Task<Status> Agreement::begin_step(StepInfo) { co_return Status(); }
Task<Status> Agreement::end_step(StepInfo) { co_return Status(); }
Task<Status> Agreement::arrive() { co_return Status(); }
Task<Status> Agreement::finish() { co_return Status(); }
Task<Status> Agreement::settle(std::vector<Tensor>) {
  co_return error(Code::kInvalid, "[agree] this rule keeps every replica equal; the weights are the model");
}

}  // namespace trireme::agree
