// None: every worker trains alone. The control that other rules are measured against: what they gain by
// talking, and what talking costs. The model is worker 0's.
#include "trireme/agree/agree.h"
#include "trireme/agree/mechanism/vector_math.h"
#include "trireme/runtime/sync.h"

namespace trireme::agree {
namespace {

using runtime::Task;

class None final : public Agreement {
 public:
  explicit None(const RuleContext& context) : context_(context), rt_(*context.rt) {}

  Task<Status> exchange(BucketExchange /*bucket*/) override { co_return Status(); }

  Task<Status> settle(std::vector<Tensor> into) override {
    std::vector<Task<Status>> buckets;
    for (std::size_t b = 0; b < into.size(); ++b) buckets.push_back(give(settles_, b, into[b]));
    ++settles_;
    co_return co_await runtime::when_all(rt_, std::move(buckets));
  }

 private:
  Task<Status> give(std::uint32_t step, std::size_t b, Tensor into) {
    comm::Call call;
    call.step = step;
    call.slot = context_.buckets[b].mean_slot;
    call.label = fmt::format("model of worker 0, bucket {}", b);
    if (context_.worker == 0) co_await copy(rt_, context_.weights[b], into);
    co_return co_await context_.workers->broadcast(std::move(call), into);
  }

  const RuleContext context_;
  runtime::Runtime& rt_;
  std::uint32_t settles_ = 0;
};

}  // namespace

extern const AgreementRow kNone{
    .name = "none",
    .doc = "Workers train alone and never talk; the model is worker 0's. The control.",
    .paper = "The control of Zinkevich, Weimer, Li, Smola, Parallelized stochastic gradient descent, 2010",
    .pace = Pace::kPeriod,
    .make = [](const RuleContext& context) -> std::unique_ptr<Agreement> {
      return std::make_unique<None>(context);
    },
    .no_codec =
        "nothing travels between its workers, so there is nothing to encode; use parallel.codec = none"};

}  // namespace trireme::agree
