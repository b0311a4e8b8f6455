// local: nothing is added. The worker's rule does with its gradient, or its factors, what it does.
#include "trireme/comm/sum/host_sum.h"

namespace trireme::comm {
namespace {

class Local final : public HostSum {
 public:
  using HostSum::HostSum;
  runtime::Task<Status> sum(SumCall /*call*/) override { co_return Status(); }
};

}  // namespace

extern const SumRow kLocalSum;
constinit const SumRow kLocalSum{
    .name = "local",
    .doc = "nothing is added: the rule sends what the worker has",
    .price = [](const SumShape&, const cost::Rates&) { return SumPrice(); },
    .held_bytes = [](const SumShape&) { return 0.0; },
    .make = [](runtime::Runtime& rt, Group& group, SumSpec spec) -> std::unique_ptr<GradientSum> {
      return std::make_unique<Local>(rt, group, std::move(spec));
    }};

}  // namespace trireme::comm
