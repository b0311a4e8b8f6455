#include "trireme/agree/agree.h"

namespace trireme::agree {

using runtime::Task;

Task<Status> Agreement::begin_step(StepInfo) { co_return Status(); }
Task<Status> Agreement::end_step(StepInfo) { co_return Status(); }
Task<Status> Agreement::arrive() { co_return Status(); }
Task<Status> Agreement::finish() { co_return Status(); }
Task<Status> Agreement::settle(std::vector<Tensor>) {
  co_return error(Code::kInvalid, "[agree] this rule keeps every replica equal; the weights are the model");
}

}  // namespace trireme::agree
